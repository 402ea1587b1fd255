/* SPDX-License-Identifier: MIT
 * Any bytes -> what answers gdb: no crash, no leak, and it ends with them. Lines are requests, packed as gdb packs them; behind a first
 * byte '$' all is taken as it comes. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cli/cli.h"
#include "../cli/gdb_serve.h"
#include "fuzz.h"

void complain(const char *format, ...) { (void)format; }

static void write_all(int fd, const void *bytes, size_t n) { MUST(write(fd, bytes, n) == (ssize_t)n); }

static void write_request(int fd, const uint8_t *text, size_t n)
{
    char sum[4];
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++)
        all = (uint8_t)(all + text[i]);
    snprintf(sum, sizeof sum, "#%02x", all);
    write_all(fd, "$", 1);
    write_all(fd, text, n);
    write_all(fd, sum, 3);
}

static void write_requests(int fd, const uint8_t *data, size_t n)
{
    while (n) {
        const uint8_t *end = memchr(data, '\n', n);
        size_t line = end ? (size_t)(end - data) : n;
        write_request(fd, data, line);
        data += line + (end != NULL);
        n -= line + (end != NULL);
    }
}

/* Two threads, and a program in whose code they are. */
static void serve(struct cofi_view *view, int in, int out)
{
    struct gdb_block blocks[] = {{0x1000, 0x1003, 4}, {1, 0, 0}, {0x1008, 0x100a, 2}};
    struct gdb_thread threads[] = {{.tid = 7, .name = "<a>&\n", .blocks = blocks, .n = 3, .insns = 6, .mode = 64, .pc = 0x100a},
                                   {.tid = 8, .name = "b", .blocks = blocks, .n = 1, .insns = 4, .mode = 32, .pc = 0x1003}};
    struct gdb_module modules[] = {{.path = "/bin/\"p'", .entry = 0x1000, .headers = 0x40, .headers_n = 2, .header_bytes = 56},
                                   {.path = "/lib/l.so", .base = 0x7000, .dynamic = 0x7100}};
    struct gdb_modules all = {.all = modules, .n = 2, .program = 0};
    struct gdb_history history = {.threads = threads, .n = 2};
    gdb_serve(&(struct gdb_target){&history, &all, view, &(struct gdb_core){.n = 0}}, in, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t code[16] = {0x90, 0x90, 0x90, 0xc3};
    struct cofi_image *image;
    struct cofi_view *view;
    int in = memfd_create("requests", MFD_CLOEXEC), out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    MUST(in >= 0 && out >= 0 && cofi_image_open(&image) >= 0);
    MUST(cofi_image_map_bytes(image, 0, 0x1000, code, sizeof code, "code") >= 0 && cofi_view_open(&view, image) >= 0);
    if (n && *data == '$')
        write_all(in, data, n);
    else
        write_requests(in, data, n);
    MUST(lseek(in, 0, SEEK_SET) == 0);
    serve(view, in, out);
    cofi_view_close(view);
    cofi_image_close(image);
    close(in);
    close(out);
    return 0;
}

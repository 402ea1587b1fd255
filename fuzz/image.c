/* SPDX-License-Identifier: MIT
 * Bytes -> an ELF file, mapped, also as a kernel's module, and asked for code, symbols and lines everywhere. */
#include <sys/mman.h>
#include <unistd.h>

#include <cofi/image.h>

#include "fuzz.h"
#include "image/file.h"
#include "image/image.h"
#include "image/module.h"

static bool find(void *opaque, const char *depends, const char *name, uint64_t *addr)
{
    (void)opaque;
    *addr = 0x60000000;
    return name[0] == depends[0];
}

static void ask(struct cofi_view *view, uint64_t base, size_t n)
{
    for (uint64_t i = 0; i < n + 0x2000; i += 61) {
        struct cofi_code code;
        struct cofi_symbol symbol;
        volatile uint8_t byte;
        if (cofi_view_find(view, base + i, &code) == 0) {
            MUST(code.start <= base + i && base + i < code.end);
            byte = code.bytes[base + i - code.start];
            (void)byte;
        }
        if (i % 4 == 0)
            cofi_view_symbol(view, base + i, i % 16 == 0, &symbol);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi__module module = {0x60000000, find, NULL};
    char path[64];
    int fd = memfd_create("image", 0);
    MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(cofi_image_open(&image) == 0);
    cofi_image_map_elf(image, 0, path, 0, NULL);
    cofi_image_map_elf(image, 1, path, 0x10000000, NULL);
    cofi_image_map_bytes(image, 2, 0x40000000, bytes, n, "bytes");
    cofi_image_map_file(image, 3, 0x50000000, n + 100, path, 0, NULL, 0);
    struct cofi__source *source = cofi__store_module(image->stores[0], path, NULL, NULL, 0, &module);
    MUST(source && cofi__image_add(image, 4, module.addr, n + 100, source, 0) == 0);
    MUST(cofi_view_open(&view, image) == 0);
    MUST(cofi_view_advance(view, 10, NULL, NULL) >= 0);
    ask(view, 0, n);
    ask(view, 0x10000000, n);
    ask(view, 0x40000000, n);
    ask(view, 0x50000000, n);
    ask(view, module.addr, n);
    cofi_view_close(view);
    cofi_image_close(image);
    close(fd);
    return 0;
}

/* SPDX-License-Identifier: MIT
 * --image -> code of a raw stream. */
#include "raw_image.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "file.h"

static bool is_empty(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !st.st_size;
}

/* X.addr: the addresses of a page dump, whose bytes are in X.dump. */
static int add_pages(struct cofi_image *image, const char *addresses, const char *command, struct cofi_error *error)
{
    char bytes[4096];
    snprintf(bytes, sizeof bytes, "%.*s.dump", (int)(strlen(addresses) - 5), addresses);
    int odd = cofi_image_map_pages(image, 0, addresses, bytes, error);
    if (odd > 0)
        complain("%s: %s: %d page%s left out: no page's address there, or not all bytes in %s", command, addresses, odd,
                 odd == 1 ? "" : "s", bytes);
    if (!odd && is_empty(addresses))
        complain("%s: %s: there is no page in it", command, addresses);
    return odd;
}

/* An ELF file where it says. Of a page dump the other one of its two files may have been given. */
static int add_elf(struct cofi_image *image, const char *path, struct cofi_error *error)
{
    size_t length = strlen(path);
    int status = cofi_image_map_elf(image, 0, path, 0, error);
    if (status == COFI_ERR_BAD_FORMAT && length > 5 && !strcmp(path + length - 5, ".dump"))
        snprintf(error->text, sizeof error->text,
                 "%s: no ELF file; of a page dump give the file with the addresses: --image=%.*s.addr", path,
                 (int)(length - 5), path);
    return status;
}

/* FILE@ADDR: an ELF or PE file that was loaded there, or raw code. */
static int add_at(struct cofi_image *image, const char *path, uint64_t address, const char *command, bool *elf,
                  struct cofi_error *error)
{
    struct file code;
    int status = cofi_image_map_elf_at(image, 0, path, address, error);
    *elf |= status >= 0;
    if (status == COFI_ERR_BAD_FORMAT)
        status = cofi_image_map_pe_at(image, 0, path, address, error);
    if (status != COFI_ERR_BAD_FORMAT)
        return status;
    error->text[0] = 0;
    if (file_open(&code, command, path) != EXIT_DONE)
        return COFI_ERR_IO; /* which was said */
    status = cofi_image_map_bytes(image, 0, address, code.bytes, code.n, path);
    file_close(&code);
    return status;
}

int raw_image_add(struct cofi_image *image, const char *spec, const char *command, bool *elf, struct cofi_error *error)
{
    const char *at = strrchr(spec, '@');
    size_t length = strlen(spec);
    char path[4096];
    uint64_t address;
    if (!at && length > 5 && !strcmp(spec + length - 5, ".addr"))
        return add_pages(image, spec, command, error);
    if (!at) {
        int status = add_elf(image, spec, error);
        *elf |= status >= 0;
        return status;
    }
    snprintf(path, sizeof path, "%.*s", (int)(at - spec), spec);
    if (parse_hex(at + 1, &address))
        return add_at(image, path, address, command, elf, error);
    snprintf(error->text, sizeof error->text, "%s: no address after @", spec);
    return COFI_ERR_SYNTAX;
}

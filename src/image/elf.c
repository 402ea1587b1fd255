/* SPDX-License-Identifier: MIT
 * ELF -> its build id and loadable parts; ELF -> mappings. */
#include <gelf.h>
#include <elfutils/libdwelf.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cofi/image.h>

#include "base/error.h"
#include "image/elf_file.h"
#include "image/file.h"
#include "image/image.h"
#include "image/unpack.h"

static int add_loads(struct cofi__source *source, Elf *elf)
{
    size_t n;
    if (elf_getphdrnum(elf, &n) || !n)
        return 0;
    if (n > 65536)
        n = 65536;
    source->loads = calloc(n, sizeof *source->loads);
    if (!source->loads)
        return -1;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr phdr;
        if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_LOAD)
            continue;
        if (phdr.p_offset + phdr.p_filesz < phdr.p_offset)
            continue;
        source->loads[source->n_loads++] =
            (struct cofi__load){phdr.p_offset, phdr.p_filesz, phdr.p_vaddr, phdr.p_flags & PF_X};
    }
    return 0;
}

int cofi__elf_check_build_id(struct cofi__source *source, Elf *elf)
{
    if (!source->build_id_size)
        return 0;
    const void *id = NULL;
    ssize_t n = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
    if (n <= 0) {
        snprintf(source->why, COFI__WHY_BYTES, "%.300s: has no build id, the recording has one",
                 source->path);
        return COFI_ERR_NO_CODE;
    }
    /* perf pads short ids with zeros, and says 20 where it does not know the size. */
    uint8_t padded[20] = {0};
    memcpy(padded, id, n < 20 ? (size_t)n : 20);
    if (!memcmp(padded, source->build_id, source->build_id_size))
        return 0;
    snprintf(source->why, COFI__WHY_BYTES, "%.300s: build id differs from the recording's: "
             "the file changed since", source->path);
    return COFI_ERR_NO_CODE;
}

int cofi__elf_inspect(struct cofi__source *source, int fd)
{
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    GElf_Ehdr ehdr;
    bool is_elf = elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &ehdr);
    int status = cofi__elf_check_build_id(source, is_elf ? elf : NULL);
    if (!status && is_elf) {
        source->elf = true;
        source->elf_exec = ehdr.e_type == ET_EXEC;
        source->mode = gelf_getclass(elf) == ELFCLASS32 ? 32 : 64;
        if (add_loads(source, elf)) {
            snprintf(source->why, COFI__WHY_BYTES, "%.300s: out of memory", source->path);
            status = COFI_ERR_NOMEM;
        }
    }
    if (elf)
        elf_end(elf);
    return status;
}

int cofi_image_map_elf(struct cofi_image *image, uint64_t time_ns, const char *path, uint64_t base,
                       struct cofi_error *error)
{
    struct cofi__source *source = cofi__store_file(image->stores[0], path, NULL, NULL, 0);
    if (!source)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "%s: out of memory", path);
    int status = cofi__source_open(source);
    if (status < 0)
        return cofi__fail(error, status, COFI_NOWHERE, "%s", source->why);
    if (!source->elf || !source->n_loads)
        return cofi__fail(error, COFI_ERR_BAD_FORMAT, COFI_NOWHERE,
                          "%s: not an ELF file with loadable parts; map it raw with an address", path);
    for (size_t i = 0; i < source->n_loads; i++) {
        const struct cofi__load *load = &source->loads[i];
        uint64_t skip = 0;
        if (!load->filesz)
            continue;
        /* The page that a part starts in shows the file's bytes before it too. */
        if (load->offset % 4096 == load->vaddr % 4096)
            skip = load->offset % 4096;
        status = cofi__image_add(image, time_ns, base + load->vaddr - skip, load->filesz + skip,
                                 source, load->offset - skip);
        if (status < 0)
            return cofi__fail(error, status, COFI_NOWHERE, "%s: a part does not fit the address space",
                              path);
    }
    return 0;
}

/* A linker's file has the names of its sections in it. */
static bool has_sections(const struct elf_file *file)
{
    struct stat st;
    size_t names = 0;
    GElf_Shdr shdr = {0};
    return file->elf && elf_kind(file->elf) == ELF_K_ELF && !fstat(file->fd, &st) &&
           !elf_getshdrstrndx(file->elf, &names) && names && gelf_getshdr(elf_getscn(file->elf, names), &shdr) &&
           shdr.sh_type == SHT_STRTAB && shdr.sh_offset <= (uint64_t)st.st_size &&
           shdr.sh_size <= (uint64_t)st.st_size - shdr.sh_offset;
}

/* Status; error says why. */
static int check_sections(const char *path, struct cofi_error *error)
{
    struct elf_file file = elf_file_open(path);
    int status = 0;
    if (file.fd < 0)
        status = cofi__fail(error, COFI_ERR_NO_CODE, COFI_NOWHERE, "%s: %s", path, strerror(errno));
    else if (!has_sections(&file))
        status = cofi__fail(error, COFI_ERR_BAD_FORMAT, COFI_NOWHERE, "%s: not an ELF file with a section table", path);
    elf_file_close(&file);
    return status;
}

int cofi_image_map_elf_at(struct cofi_image *image, uint64_t time_ns, const char *path, uint64_t addr,
                          struct cofi_error *error)
{
    const uint64_t page = 4096;
    uint64_t lowest = UINT64_MAX;
    COFI_TRY(check_sections(path, error));
    struct cofi__source *source = cofi__store_file(image->stores[0], path, NULL, NULL, 0);
    if (!source)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "%s: out of memory", path);
    int status = cofi__source_open(source);
    if (status < 0)
        return cofi__fail(error, status, COFI_NOWHERE, "%s", source->why);
    for (size_t i = 0; i < source->n_loads; i++)
        lowest = source->loads[i].vaddr < lowest ? source->loads[i].vaddr : lowest;
    return cofi_image_map_elf(image, time_ns, path, addr - (lowest & ~(page - 1)), error);
}

/* The code of each part, moved so that the first one, where a kernel's _text is, begins at `first`. */
static int map_code(struct cofi_image *image, uint64_t time_ns, Elf *elf, const char *path, uint64_t first)
{
    size_t n, size;
    char *bytes = elf_rawfile(elf, &size);
    uint64_t slide = 0;
    bool mapped = false;
    if (!bytes || elf_getphdrnum(elf, &n))
        return COFI_ERR_BAD_FORMAT;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr phdr;
        if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) ||
            phdr.p_offset > size || phdr.p_filesz > size - phdr.p_offset)
            continue;
        if (!mapped)
            slide = first - phdr.p_vaddr;
        COFI_TRY(cofi_image_map_bytes(image, time_ns, phdr.p_vaddr + slide, (uint8_t *)bytes + phdr.p_offset,
                                      phdr.p_filesz, path));
        mapped = true;
    }
    return mapped ? 0 : COFI_ERR_BAD_FORMAT;
}

int cofi__image_map_vmlinuz(struct cofi_image *image, uint64_t time_ns, const char *path, const uint8_t *build_id,
                            size_t build_id_size, uint64_t text)
{
    struct cofi__unpacked file;
    const void *id = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status = COFI_ERR_NO_CODE;
    if (fd < 0)
        return status;
    if (cofi__unpack(&file, fd) && dwelf_elf_gnu_build_id(file.elf, &id) == (ssize_t)build_id_size &&
        !memcmp(id, build_id, build_id_size))
        status = map_code(image, time_ns, file.elf, path, text);
    cofi__unpacked_close(&file);
    close(fd);
    return status;
}

/* SPDX-License-Identifier: MIT
 * Pages of the kernel that ran -> kcore, kallsyms and modules, as perf has them beside a recording
 * [perf.data-directory-format.txt]. */
#include "host/qemu/kcore.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static int by_address(const void *a, const void *b)
{
    const struct cofi__page *x = *(struct cofi__page *const *)a, *y = *(struct cofi__page *const *)b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* The kernel's pages in the order of their addresses; to be freed. */
static const struct cofi__page **kernel_pages(const struct cofi__pages *pages, size_t *n)
{
    const struct cofi__page **rows = malloc((pages->n + 1) * sizeof *rows);
    *n = 0;
    for (size_t i = 0; rows && i < pages->n; i++)
        if (pages->rows[i]->space == SPACE_KERNEL)
            rows[(*n)++] = pages->rows[i];
    if (rows && *n)
        qsort(rows, *n, sizeof *rows, by_address);
    return rows;
}

static bool goes_on(const struct cofi__page *const *pages, size_t i)
{
    return i && pages[i]->address == pages[i - 1]->address + PAGE_BYTES;
}

/* Headers, then the pages, each where its segment's offset says. */
static void write_elf(FILE *file, const struct cofi__page *const *pages, size_t n)
{
    Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_CORE,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_phoff = sizeof head,
                       .e_ehsize = sizeof head,
                       .e_phentsize = sizeof(Elf64_Phdr)};
    for (size_t i = 0; i < n; i++)
        head.e_phnum = (Elf64_Half)(head.e_phnum + !goes_on(pages, i));
    uint64_t first = (sizeof head + head.e_phnum * sizeof(Elf64_Phdr) + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    fwrite(&head, sizeof head, 1, file);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && goes_on(pages, end);)
            end++;
        uint64_t bytes = (end - i) * PAGE_BYTES;
        Elf64_Phdr segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = first + i * PAGE_BYTES,
                              .p_vaddr = pages[i]->address, .p_filesz = bytes, .p_memsz = bytes, .p_align = PAGE_BYTES};
        fwrite(&segment, sizeof segment, 1, file);
    }
    fseek(file, (long)first, SEEK_SET);
    for (size_t i = 0; i < n; i++)
        fwrite(pages[i]->bytes, PAGE_BYTES, 1, file);
}

static int no_file(const char *path, struct cofi_error *error)
{
    return cofi__fail(error, COFI_ERR_IO, COFI_NOWHERE, "%s: %s", path, strerror(errno));
}

/* A part of one would pass for a whole one: no file is left then. */
static int finish(FILE *file, const char *path, struct cofi_error *error)
{
    bool failed = fflush(file) || ferror(file);
    int status = failed ? no_file(path, error) : 0;
    if (fclose(file) && !failed)
        status = no_file(path, error);
    if (status)
        unlink(path);
    return status;
}

static int write_kcore(const struct cofi__pages *pages, const char *path, struct cofi_error *error)
{
    size_t n;
    const struct cofi__page **rows = kernel_pages(pages, &n);
    if (!rows)
        return COFI_ERR_NOMEM;
    FILE *file = fopen(path, "we");
    if (file)
        write_elf(file, rows, n);
    free(rows);
    return file ? finish(file, path, error) : no_file(path, error);
}

static int write_text(const char *path, const char *text, struct cofi_error *error)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return no_file(path, error);
    fputs(text, file);
    return finish(file, path, error);
}

int cofi__kcore_write(const struct cofi__pages *pages, uint64_t text, const char *folder, struct cofi_error *error)
{
    char path[4096], symbols[64];
    snprintf(path, sizeof path, "%s/kcore_dir", folder);
    if (mkdir(path, 0777) && errno != EEXIST)
        return no_file(path, error);
    snprintf(path, sizeof path, "%s/kcore_dir/kcore", folder);
    COFI_TRY(write_kcore(pages, path, error));
    snprintf(path, sizeof path, "%s/kcore_dir/kallsyms", folder);
    snprintf(symbols, sizeof symbols, "%016" PRIx64 " T _text\n", text);
    COFI_TRY(write_text(path, symbols, error));
    snprintf(path, sizeof path, "%s/kcore_dir/modules", folder);
    return write_text(path, "", error);
}

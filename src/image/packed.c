/* SPDX-License-Identifier: MIT
 * A file whose debug sections are packed by zstd (-gz=zstd) -> its DWARF. libdw knows zstd only where it
 * was built with it: Debian 12's was not. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "image/symbols.h"

enum { PACKED_BY_ZSTD = 2 }; /* ELFCOMPRESS_ZSTD, for which older <elf.h> have no name */

/* What a made file may cost. */
static const uint64_t most_bytes = UINT64_C(1) << 32;

/* What zstd packed in a section; null: it did not. */
static Elf_Data *packed_bytes(Elf *elf, Elf_Scn *scn, GElf_Chdr *head)
{
    Elf_Data *data = gelf_getchdr(scn, head) && head->ch_type == PACKED_BY_ZSTD ? elf_rawdata(scn, NULL) : NULL;
    return data && data->d_size > gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT) ? data : NULL;
}

/* How long all of them are unpacked; 0: there are none, or they are too large. */
static uint64_t unpacked_size(Elf *elf)
{
    uint64_t sum = 0;
    GElf_Chdr head;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        if (!packed_bytes(elf, scn, &head))
            continue;
        if (head.ch_size > most_bytes - sum)
            return 0;
        sum += head.ch_size;
    }
    return sum;
}

/* Unpack all to at, behind the file's bytes in made, and let the headers there point to them. */
static bool unpack_all(struct cofi__packed *made, Elf *elf, size_t at)
{
    size_t skip = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT);
    GElf_Chdr head;
    GElf_Shdr shdr;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        Elf_Data *data = packed_bytes(elf, scn, &head);
        Elf_Scn *to = data ? elf_getscn(made->elf, elf_ndxscn(scn)) : NULL;
        if (!to)
            continue;
        size_t n = ZSTD_decompress(made->bytes + at, head.ch_size, (uint8_t *)data->d_buf + skip, data->d_size - skip);
        if (n != head.ch_size || !gelf_getshdr(to, &shdr))
            return false;
        shdr.sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
        shdr.sh_addralign = head.ch_addralign;
        shdr.sh_offset = at;
        shdr.sh_size = n;
        if (!gelf_update_shdr(to, &shdr))
            return false;
        at += n;
    }
    return true;
}

static bool read_file(int fd, uint8_t *bytes, size_t n)
{
    size_t at = 0;
    for (ssize_t got = 1; at < n && got > 0; at += (size_t)(got > 0 ? got : 0))
        got = pread(fd, bytes + at, n - at, (off_t)at);
    return at == n;
}

static void make(struct cofi__packed *made, Elf *elf, int fd, size_t n)
{
    uint64_t unpacked = unpacked_size(elf);
    made->bytes = unpacked ? malloc(n + unpacked) : NULL;
    if (!made->bytes || !read_file(fd, made->bytes, n))
        return;
    made->elf = elf_memory((char *)made->bytes, n + unpacked);
    if (made->elf && unpack_all(made, elf, n))
        made->dwarf = dwarf_begin_elf(made->elf, DWARF_C_READ, NULL);
}

/* Not of files that are still to be linked: addresses in their DWARF are told by relocations. */
static bool is_linked(Elf *elf)
{
    GElf_Ehdr header;
    return elf && gelf_getehdr(elf, &header) && header.e_type != ET_REL;
}

Dwarf *cofi__packed_open(struct cofi__packed *made, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    if (is_linked(elf) && !fstat(fd, &st) && (uint64_t)st.st_size <= most_bytes)
        make(made, elf, fd, (size_t)st.st_size);
    if (elf)
        elf_end(elf);
    if (fd >= 0)
        close(fd);
    return made->dwarf;
}

void cofi__packed_close(struct cofi__packed *made)
{
    if (made->dwarf)
        dwarf_end(made->dwarf);
    if (made->elf)
        elf_end(made->elf);
    free(made->bytes);
    *made = (struct cofi__packed){0};
}

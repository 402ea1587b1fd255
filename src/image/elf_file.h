/* SPDX-License-Identifier: MIT
 * A file as libelf reads it. */
#ifndef COFI_IMAGE_ELF_FILE_H
#define COFI_IMAGE_ELF_FILE_H

#include <fcntl.h>
#include <libelf.h>
#include <unistd.h>

struct elf_file {
    int fd;
    Elf *elf; /* null: cannot be read. Also what is no ELF file has one: elf_kind tells */
};

static inline struct elf_file elf_file_open(const char *path)
{
    struct elf_file file = {open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), NULL};
    elf_version(EV_CURRENT);
    file.elf = file.fd >= 0 ? elf_begin(file.fd, ELF_C_READ, NULL) : NULL;
    return file;
}

static inline void elf_file_close(struct elf_file *file)
{
    elf_end(file->elf); /* null: nothing */
    if (file->fd >= 0)
        close(file->fd);
}

#endif

/* SPDX-License-Identifier: MIT
 * A mapped file's path -> its build id, read once. */
#include <gelf.h>
#include <elfutils/libdwelf.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"
#include "trace/writer.h"

static void read_elf(struct cofi__build_id *entry, int fd)
{
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    const void *id;
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        entry->class32 = gelf_getclass(elf) == ELFCLASS32;
        ssize_t n = dwelf_elf_gnu_build_id(elf, &id);
        if (n > 0) {
            entry->size = n < 20 ? (uint8_t)n : 20;
            memcpy(entry->id, id, entry->size);
        }
    }
    if (elf)
        elf_end(elf);
}

const struct cofi__build_id *cofi__writer_build_id(struct cofi_writer *writer, const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return NULL;
    struct cofi__build_id **bucket = &writer->build_ids[cofi__text_hash(path) % BUILD_ID_BUCKETS];
    uint64_t mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    for (struct cofi__build_id *e = *bucket; e; e = e->next)
        if (!strcmp(e->path, path) && e->dev == st.st_dev && e->ino == st.st_ino && e->mtime_ns == mtime_ns)
            return e;
    struct cofi__build_id *entry = calloc(1, sizeof *entry + strlen(path) + 1);
    if (!entry)
        return NULL;
    strcpy(entry->path, path);
    entry->dev = st.st_dev;
    entry->ino = st.st_ino;
    entry->mtime_ns = mtime_ns;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        read_elf(entry, fd);
        close(fd);
    }
    entry->next = *bucket;
    *bucket = entry;
    return entry;
}

void cofi__writer_build_ids_free(struct cofi_writer *writer)
{
    for (size_t i = 0; i < BUILD_ID_BUCKETS; i++)
        while (writer->build_ids[i]) {
            struct cofi__build_id *entry = writer->build_ids[i];
            writer->build_ids[i] = entry->next;
            free(entry);
        }
}

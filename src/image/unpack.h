/* SPDX-License-Identifier: MIT
 * An ELF in a file that may be compressed (gz, bz2, xz, zst), or be a kernel's boot image (vmlinuz). */
#ifndef COFI_IMAGE_UNPACK_H
#define COFI_IMAGE_UNPACK_H

#include <libelf.h>

#include <stdbool.h>
#include <stdint.h>

struct cofi__unpacked {
    Elf *elf;
    uint8_t *bytes; /* what the ELF reads, or null: libelf's */
};

/* False: it is none, damaged, or larger than any kernel. To be closed whatever it says; fd stays open so long. */
bool cofi__unpack(struct cofi__unpacked *unpacked, int fd);
void cofi__unpacked_close(struct cofi__unpacked *unpacked);

#endif

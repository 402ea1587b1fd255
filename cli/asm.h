/* SPDX-License-Identifier: MIT
 * cofi asm: packet text -> bytes. */
#ifndef COFI_CLI_ASM_H
#define COFI_CLI_ASM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cofi/packet.h>

struct assembler {
    const char *path; /* for complaints */
    FILE *talk;       /* where they go; null: nowhere */
    struct cofi_packet_context context;
    unsigned line;
    uint8_t *bytes;   /* what is assembled so far; the caller frees it */
    size_t n, room;
};

/* Assemble text[0..n). Returns 0, or the worst exit status of its lines, all of which are tried. */
int assemble(struct assembler *assembler, const char *text, size_t n);

#endif

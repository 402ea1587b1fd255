/* SPDX-License-Identifier: MIT
 * Members of ELF structures of either class, wherever they lie [elf(5)]. */
#ifndef COFI_CLI_ELF_MEMBERS_H
#define COFI_CLI_ELF_MEMBERS_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* n bytes, little-endian. */
static inline uint64_t elf_number(const uint8_t *bytes, size_t n)
{
    uint64_t value = 0;
    while (n--)
        value = value << 8 | bytes[n];
    return value;
}

/* Type: Ehdr, Phdr, …, which lies at `at`, whole. */
#define ELF_GET(is_32, at, Type, member) \
    ((is_32) ? elf_number((at) + offsetof(Elf32_##Type, member), sizeof ((Elf32_##Type *)0)->member) \
             : elf_number((at) + offsetof(Elf64_##Type, member), sizeof ((Elf64_##Type *)0)->member))
#define ELF_SIZE(is_32, Type) ((is_32) ? sizeof(Elf32_##Type) : sizeof(Elf64_##Type))

#endif

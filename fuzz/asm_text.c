/* SPDX-License-Identifier: MIT
 * Any text -> cofi asm: bytes or complaints, never more. */
#include "../cli/asm.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct assembler a = {.path = "fuzz", .context = {.gen = COFI_PT}};
    int status = assemble(&a, (const char *)bytes, n);
    MUST(status == 0 || status == 1);
    free(a.bytes);
    return 0;
}

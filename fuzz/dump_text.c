/* SPDX-License-Identifier: MIT
 * Any bytes -> cofi dump's text -> cofi asm -> the same bytes. First byte: generation, cycle
 * counts, sync, columns. */
#include "../cli/asm.h"
#include "../cli/dump.h"
#include "../cli/file.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n || n > 1 << 16)
        return 0;
    enum cofi_gen gen = *bytes & 1 ? COFI_PT : COFI_RTIT;
    struct dump_options options = {.path = "fuzz",
                                   .cyc = *bytes >> 1 & 1,
                                   .no_sync = *bytes & 4,
                                   .bytes = *bytes & 8,
                                   .lastip = *bytes & 16,
                                   .no_offset = *bytes & 32,
                                   .tid = -1,
                                   .to = UINT64_MAX};
    struct file file = {bytes + 1, n - 1, false};
    struct dump_source source = {.file = &file, .n = n - 1, .tid = -1};
    struct assembler back = {.path = "fuzz", .context = {.gen = COFI_PT}};
    char *text = 0;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    dump_stream(&options, &source, gen, -1, out);
    fclose(out);
    back.talk = stderr;
    MUST(assemble(&back, text, length) == 0);
    MUST(back.n == n - 1 && (!back.n || !memcmp(back.bytes, bytes + 1, n - 1)));
    free(back.bytes);
    free(text);
    return 0;
}

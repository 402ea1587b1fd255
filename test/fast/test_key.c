/* SPDX-License-Identifier: MIT
 * The table of blocks finds a block among a million in a few steps, however the program's code lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "host/fast/rt/key.h"

enum { ENTRIES = 1 << 21 };

static uint64_t table[ENTRIES]; /* addresses */

/* In how many steps an address is found, or put. */
static unsigned steps(uint64_t pc, bool arrived)
{
    uint32_t at = place_of(key_of(pc, 1, arrived), ENTRIES);
    unsigned n = 1;
    for (; table[at] && table[at] != 2 * pc + arrived; n++)
        at = (at + 1) & (ENTRIES - 1);
    table[at] = 2 * pc + arrived;
    return n;
}

/* Code that is all blocks, each `apart` bytes from the next, in pieces of so many, so far from each other; in half as many entries as there are. */
static void fill(uint64_t pc, unsigned apart, unsigned piece, uint64_t stride, bool both)
{
    uint64_t sum = 0, n = 0;
    unsigned most = 0;
    for (uint32_t i = 0; i < ENTRIES; i++)
        table[i] = 0;
    for (unsigned part = 0; n < ENTRIES / 2; part++)
        for (unsigned i = 0; i < piece && n < ENTRIES / 2; i++)
            for (int arrived = 0; arrived <= both; arrived++, n++) {
                unsigned took = steps(pc + part * stride + i * apart, arrived);
                sum += took;
                most = took > most ? took : most;
            }
    assert_in_range(sum / n, 1, 7);
    assert_in_range(most, 1, 500);
}

static void large_programs(void **state)
{
    (void)state;
    fill(0x7ff300000000, 12, 5000, 1 << 19, false); /* as a compiler's library: the hot part of each half megabyte */
    fill(0x555555555000, 8, 20000, 1 << 20, true);
    fill(0x400000, 5, 400000, 1 << 21, false); /* as dense as code may be */
    fill(0x10000, 16, 16, 4096, false); /* a small function on each page */
    fill(0x7f0000000000, 4, 1, 1 << 16, false); /* one block each 64 KiB */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_programs),
    };
    return cmocka_run_group_tests_name("fast-key", tests, NULL, NULL);
}

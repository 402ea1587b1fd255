/* SPDX-License-Identifier: MIT
 * A restartable sequence that goes all of its ways: restarted or not, it comes to the same. */
#include <sched.h>
#include <stdio.h>

#include "sequence.h"

int main(void)
{
    for (uint64_t n = 1; n < 40; n++) {
        sched_yield(); /* so that none is restarted, most likely, and two runs are alike */
        printf("%lu ", (unsigned long)reckoned(n));
    }
    puts("");
    return 0;
}

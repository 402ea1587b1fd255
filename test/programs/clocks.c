/* SPDX-License-Identifier: MIT
 * Reads all clocks that the vDSO has, many times: it tries again when the kernel changes them meanwhile, which happens when it
 * happens. */
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

int main(void)
{
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME};
    unsigned bad = 0;
    for (int i = 0; i < 100; i++) {
        struct timespec t;
        struct timeval v;
        for (unsigned k = 0; k < 5; k++)
            bad += clock_gettime(clocks[k], &t) != 0;
        bad += gettimeofday(&v, NULL) != 0;
        bad += time(NULL) < 1000000000;
    }
    printf("%u\n", bad);
    return 0;
}

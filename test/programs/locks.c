/* SPDX-License-Identifier: MIT
 * A program that has all its memory locked, and takes more now and then. Status 77: it may not. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        return 77;
    for (int i = 0; i < 300; i++, usleep(10000))
        free(calloc(1, 300000));
    return 3;
}

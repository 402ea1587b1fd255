/* SPDX-License-Identifier: MIT
 * The break grows by 400 MB. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    void *r = NULL;
    for (int i = 0; i < 400 && r != (void *)(intptr_t)-1; i++)
        r = sbrk(1 << 20);
    puts(r == (void *)(intptr_t)-1 ? "no room" : "room");
    return 0;
}

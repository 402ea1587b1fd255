/* SPDX-License-Identifier: MIT
 * Code that a guest writes. */
#ifndef COFI_TEST_FAST_CODE_H
#define COFI_TEST_FAST_CODE_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static inline uint8_t *pages(int prot)
{
    return mmap(NULL, 8192, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

enum { RETURN_BYTES = 6 };
/* mov eax, imm32; ret */
static inline void put_return(uint8_t *p, int32_t v)
{
    p[0] = 0xb8;
    memcpy(p + 1, &v, 4);
    p[5] = 0xc3;
}

static inline int call(const uint8_t *p)
{
    int (*f)(void);
    memcpy(&f, &p, sizeof f);
    return f();
}

#endif

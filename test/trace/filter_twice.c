/* SPDX-License-Identifier: MIT
 * See filter_twice.h. */
#include "filter_twice.h"

#include <stdint.h>

int twice(int n);
__attribute__((noinline)) int twice(int n) { return 2 * n; }

int filter_twice(int n) { return twice(n); }
bool filter_twice_is_first(int (*other)(int)) { return (uintptr_t)twice < (uintptr_t)other; }

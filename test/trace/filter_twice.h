/* SPDX-License-Identifier: MIT
 * A function of the same name as one of test_filter.c. */
#include <stdbool.h>

int filter_twice(int n);
/* Whether it lies before the other. */
bool filter_twice_is_first(int (*other)(int));

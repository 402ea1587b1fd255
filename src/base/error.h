/* SPDX-License-Identifier: MIT
 * Filling struct cofi_error. */
#ifndef COFI_BASE_ERROR_H
#define COFI_BASE_ERROR_H

#include <cofi/error.h>

/* Fill *error (may be null) and return code. offset: where in the input, UINT64_MAX for nowhere. */
int cofi__fail(struct cofi_error *error, int code, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define COFI_NOWHERE UINT64_MAX
/* The same with what the code says in general, where *error has no text yet; nothing without an error. Returns code. */
int cofi__name_error(struct cofi_error *error, int code);
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Return the error of an expression that has one. */
#define COFI_TRY(expression)                    \
    do {                                        \
        int cofi_try_status_ = (expression);    \
        if (cofi_try_status_ < 0)               \
            return cofi_try_status_;            \
    } while (0)

#endif

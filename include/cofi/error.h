/* SPDX-License-Identifier: MIT
 * Errors: one row each; enumerator, value, name and text come from it. */
#ifndef COFI_ERROR_H
#define COFI_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text. The enumerators are negative, so a function returns them as they are. */
#define COFI_ERRORS(X)                                                          \
    X(NOMEM, -1, "out of memory")                                               \
    X(IO, -2, "input or output failed")                                         \
    X(SYSTEM, -3, "the system refused a call")                                  \
    X(TRUNCATED, -4, "the data end inside an item")                             \
    X(BAD_PACKET, -5, "the bytes are no packet")                                \
    X(NO_SYNC, -6, "no PSB found")                                              \
    X(BAD_FORMAT, -7, "not a file of this format")                              \
    X(NO_CODE, -8, "no memory mapped at this address")                          \
    X(BAD_INSN, -9, "the bytes are no instruction")                             \
    X(MISMATCH, -10, "trace stream does not match query")                       \
    X(BAD_RETC, -11, "bad retcomp")                                             \
    X(GP, -12, "#GP(0)")                                                        \
    X(RANGE, -13, "value out of range")                                         \
    X(UNSUPPORTED, -14, "not supported")                                        \
    X(SYNTAX, -15, "syntax error")                                              \
    X(FULL, -16, "the output is full")                                          \
    X(PERMISSION, -17, "permission denied")                                     \
    X(NOT_FOUND, -18, "no such thing")                                          \
    X(NO_OUTCOMES, -19, "branch outcomes are not traced")

enum cofi_status {
    COFI_OK = 0,
#define X(name, value, text) COFI_ERR_##name = value,
    COFI_ERRORS(X)
#undef X
};

/* Where an operation failed and what to do. Filled by functions that take one; a null pointer is
 * accepted everywhere and means that the caller does not want the details. */
struct cofi_error {
    int code;        /* enum cofi_status */
    uint64_t offset; /* byte offset in the input, or UINT64_MAX where there is none */
    char text[240];  /* which check failed, with its tag, and what to do; no newline */
};

/* Short text of a status ("out of memory"); "unknown error" for a value that is
 * none. Never null. */
const char *cofi_error_text(int code);
/* Name of a status ("NOMEM"). Never null. */
const char *cofi_error_name(int code);

#ifdef __cplusplus
}
#endif
#endif

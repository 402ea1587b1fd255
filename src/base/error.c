/* SPDX-License-Identifier: MIT
 * Status codes -> names and texts; filling struct cofi_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

const char *cofi_error_text(int code)
{
    switch (code) {
    case COFI_OK: return "done";
#define X(name, value, text) case COFI_ERR_##name: return text;
    COFI_ERRORS(X)
#undef X
    }
    return "unknown error";
}

const char *cofi_error_name(int code)
{
    switch (code) {
    case COFI_OK: return "OK";
#define X(name, value, text) case COFI_ERR_##name: return #name;
    COFI_ERRORS(X)
#undef X
    }
    return "UNKNOWN";
}

int cofi__name_error(struct cofi_error *error, int code)
{
    bool named = code >= 0 || !error || error->text[0];
    return named ? code : cofi__fail(error, code, COFI_NOWHERE, "%s", cofi_error_text(code));
}

int cofi__fail(struct cofi_error *error, int code, uint64_t offset, const char *format, ...)
{
    if (!error)
        return code;
    error->code = code;
    error->offset = offset;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

/* SPDX-License-Identifier: MIT
 * Where a writer's bytes go; what failed once is not tried again. */
#ifndef COFI_PRESENT_PUT_H
#define COFI_PRESENT_PUT_H

#include <string.h>

#include <cofi/present.h>

struct out {
    cofi_put *put;
    void *opaque;
    int status; /* the first error */
};

static inline void put_bytes(struct out *out, const char *bytes, size_t n)
{
    if (out->status >= 0 && n)
        out->status = out->put(out->opaque, bytes, n);
}

static inline void put_text(struct out *out, const char *text) { put_bytes(out, text, strlen(text)); }

/* How many bytes the text's first character has, which is not its end; 0: it is none (cut off, too long
 * a form, a surrogate, beyond U+10FFFF). */
size_t cofi__utf8_length(const char *text);

#endif

/* SPDX-License-Identifier: MIT
 * A string -> its JSON form; bytes that are no ASCII pass through (names are UTF-8 if they are text). */
#include "present/json.h"

#include <stdio.h>
#include <string.h>

const char *cofi__json_string(const char *text, char *out, size_t n)
{
    if (!text) {
        memcpy(out, "null", 5);
        return out;
    }
    size_t at = 0;
    out[at++] = '"';
    for (; *text && at + 8 < n; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            out[at++] = '\\', out[at++] = (char)c;
        else if (c < 0x20)
            at += (size_t)snprintf(out + at, 7, "\\u%04x", c);
        else
            out[at++] = (char)c;
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

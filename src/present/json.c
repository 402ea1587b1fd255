/* SPDX-License-Identifier: MIT
 * A string -> its JSON form: UTF-8 whatever the bytes are. Those that are none become U+FFFD, one each. */
#include "present/put.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t cofi__utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = *p < 0x80                 ? 1
               : *p >= 0xc2 && *p < 0xe0 ? 2
               : *p >= 0xe0 && *p < 0xf0 ? 3
               : *p >= 0xf0 && *p < 0xf5 ? 4
                                         : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool bad = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf0 && p[1] < 0x90) ||
               (*p == 0xf4 && p[1] >= 0x90);
    return bad ? 0 : n;
}

/* One character, six bytes at most. Returns how many bytes of text it was. */
static size_t put(const char *text, char *out, size_t *at)
{
    unsigned char c = (unsigned char)*text;
    size_t n = cofi__utf8_length(text);
    const char *bytes = n ? text : "\xef\xbf\xbd";
    if (c < 0x20) {
        *at += (size_t)snprintf(out + *at, 7, "\\u%04x", c);
        return 1;
    }
    if (c == '"' || c == '\\')
        out[(*at)++] = '\\';
    memcpy(out + *at, bytes, n ? n : 3);
    *at += n ? n : 3;
    return n ? n : 1;
}

const char *cofi_json_string(const char *text, char *out, size_t n)
{
    if (!text) {
        memcpy(out, "null", 5);
        return out;
    }
    size_t at = 0;
    out[at++] = '"';
    while (*text && at + 8 < n)
        text += put(text, out, &at);
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

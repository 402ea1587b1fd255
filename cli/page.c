/* SPDX-License-Identifier: MIT
 * See page.h. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/cofi.h>

#include "page.html.h"

static const char place[] = "id=\"data\">"; /* behind it the data stand */

static const char *behind_place(const char *page) { return strstr(page, place) + strlen(place); }

void page_begin(struct writer *out, const char *page)
{
    write_text(out, page_html);
    write_bytes(out, page, (size_t)(behind_place(page) - page));
}

void page_end(struct writer *out, const char *page)
{
    write_text(out, behind_place(page));
}

/* It must not end the script that it stands in. */
static void write_string(struct writer *out, const char *string)
{
    for (const char *from = string, *to;; from = to + 1) {
        to = strchrnul(from, '<');
        write_bytes(out, from, (size_t)(to - from));
        if (!*to)
            return;
        write_text(out, "\\u003c");
    }
}

void page_string(struct writer *out, const char *text)
{
    char small[COFI_NAME_JSON_BYTES];
    size_t n = text ? 6 * strlen(text) + 16 : 0;
    char *large = n > sizeof small ? malloc(n) : NULL;
    write_string(out, cofi_json_string(text, large ? large : small, large ? n : sizeof small));
    free(large);
}

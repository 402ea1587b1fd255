/* SPDX-License-Identifier: MIT
 * Any bytes as a symbol's name -> its name, both ways of showing it; the same again the second time. */
#include <cofi/demangle.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char name[8192];
    if (n >= sizeof name - 2)
        return 0;
    name[0] = '_'; /* what begins otherwise is none */
    memcpy(name + 1, bytes, n);
    name[n + 1] = '\0';
    for (int how = COFI_DEMANGLE_SIMPLE; how <= COFI_DEMANGLE_FULL; how++) {
        struct cofi_demangler *names;
        MUST(cofi_demangler_open(&names, (enum cofi_demangle)how) == 0);
        const char *shown = cofi_demangle(names, name);
        MUST(shown && strlen(shown) < sizeof name && cofi_demangle(names, name) == shown);
        cofi_demangler_close(names);
    }
    return 0;
}

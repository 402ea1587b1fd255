/* SPDX-License-Identifier: MIT
 * guests NAME: run one; guests: list them. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "guests.h"

static const struct {
    const char *name;
    int (*run)(void);
} guests[] = {
#define X(name) {#name, guest_##name},
    GUESTS(X)
#undef X
};

int main(int argc, char **argv)
{
    signal(SIGHUP, SIG_DFL); /* as a program has it whose tests are not run under nohup */
    if (argc > 1 && !strcmp(argv[1], "busy"))
        return guest_busy();
    for (size_t i = 0; i < sizeof guests / sizeof guests[0]; i++) {
        if (argc < 2)
            puts(guests[i].name);
        else if (!strcmp(argv[1], guests[i].name))
            return guests[i].run();
    }
    return argc < 2 ? 0 : 2;
}

/* SPDX-License-Identifier: MIT
 * lives SEED COUNT [ACTS]: COUNT lives from the SEED on, each a process of its
 * own, whose end is told, too. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lives.h"

static const struct {
    const char *name;
    void (*run)(void);
} acts[] = {
#define X(name) {#name, act_##name},
    ACTS(X)
#undef X
};

uint64_t chance;
unsigned depth;

unsigned below(unsigned n)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (unsigned)((chance >> 32) % n);
}

bool one_in(unsigned n)
{
    return !below(n);
}

void tell(const char *format, ...)
{
    char line[512];
    int kept = errno;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[n] = '\n';
    if (write(1, line, (size_t)n + 1) < 0)
        _exit(99);
    errno = kept;
}

void live(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned a = below(sizeof acts / sizeof acts[0]);
        tell("%*s%u %s", (int)depth, "", i, acts[a].name);
        acts[a].run();
    }
}

/* The program that is executed goes on with the acts that are left. */
void become(unsigned n)
{
    char state[32], left[16], deep[16];
    snprintf(state, sizeof state, "%llx", (unsigned long long)chance);
    snprintf(left, sizeof left, "%u", n);
    snprintf(deep, sizeof deep, "%u", depth);
    execl("/proc/self/exe", "lives", "-go-on", state, left, deep, (char *)NULL);
    _exit(98);
}

static void show_inherited(void)
{
    char text[256];
    sigset_t set = blocked(), ignored;
    tell(" born again, blocks%s", names(&set, text));
    sigpending(&set);
    tell(" pending%s", names(&set, text));
    sigemptyset(&ignored);
    for (int s = 1; s <= SIGRTMAX; s++) {
        struct sigaction a;
        if (!sigaction(s, NULL, &a) && a.sa_handler == SIG_IGN)
            sigaddset(&ignored, s);
    }
    tell(" ignores%s", names(&ignored, text));
}

static void one_life(uint64_t seed, unsigned n)
{
    chance = seed * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < 8; i++)
        below(2);
    begin();
    live(n);
    exit(0);
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "-go-on")) {
        chance = strtoull(argv[2], NULL, 16);
        depth = (unsigned)atoi(argv[4]);
        show_inherited();
        begin();
        live((unsigned)atoi(argv[3]));
        return 0;
    }
    if (argc < 3)
        return 2;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    uint64_t seed = strtoull(argv[1], NULL, 0);
    for (int i = 0; i < atoi(argv[2]); i++) {
        int status;
        tell("life %llu", (unsigned long long)seed + i);
        pid_t child = fork();
        if (!child)
            one_life(seed + i, argc > 3 ? (unsigned)atoi(argv[3]) : 30);
        waitpid(child, &status, 0);
        tell("life %llu ended %x", (unsigned long long)seed + i, status);
    }
    return 0;
}

/* SPDX-License-Identifier: MIT
 * A function -> the same on a stack that is large enough. See stack.h. */
#include "stack.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#include <stdbool.h>
#include <stddef.h>

/* What is enough: not more than 200 KB were seen in use, with libdw's. */
enum { ENOUGH = 1 << 20, OURS = 8 << 20, GUARD = 1 << 16 };

static struct {
    int (*run)(int argc, char **argv);
    int argc;
    char **argv;
    int result;
} call;

static void enter(void) { call.result = call.run(call.argc, call.argv); }

static bool is_small(void)
{
    struct rlimit limit;
    return !getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < ENOUGH;
}

/* Null: there is no memory for it. */
static char *own_stack(void)
{
    char *low = mmap(NULL, OURS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1,
                     0);
    return low == MAP_FAILED || mprotect(low, GUARD, PROT_NONE) ? NULL : low;
}

/* The default of threads is the limit at the program's start. */
static void widen_threads(void)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (!pthread_attr_setstacksize(&attr, OURS))
        pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
}

int stack_run(int (*run)(int argc, char **argv), int argc, char **argv)
{
    static ucontext_t here, there;
    char *low = is_small() ? own_stack() : NULL;
    if (!low || getcontext(&there))
        return run(argc, argv);
    widen_threads();
    call.run = run;
    call.argc = argc;
    call.argv = argv;
    there.uc_stack.ss_sp = low;
    there.uc_stack.ss_size = OURS;
    there.uc_link = &here;
    makecontext(&there, enter, 0);
    return swapcontext(&here, &there) ? run(argc, argv) : call.result;
}

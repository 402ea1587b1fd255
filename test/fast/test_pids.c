/* SPDX-License-Identifier: MIT
 * Who a thread of another PID namespace is, when those that may be it, or have made it, are gone. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/fast/collect.h"

enum { SLOTS = 4, MAKER = 0, SLOT = 1 };

static struct cofi__fast_control control = {.slots_used = SLOTS};
static struct cofi__fast_seat seats[SLOTS];
static struct cofi__fast_collector collector;

/* Slots that nobody has, but MAKER, which is ours. */
static struct cofi__fast_collector *begin(void)
{
    struct cofi__fast_collector *c = &collector;
    *c = (struct cofi__fast_collector){.fd = -1, .control = &control, .seats = seats};
    c->made.slots = SLOTS;
    c->made.slot_bytes = sizeof(struct thread);
    c->shared = calloc(SLOTS + 1, sizeof(struct thread));
    assert_non_null(c->shared);
    for (uint32_t i = 0; i < SLOTS; i++)
        seats[i] = (struct cofi__fast_seat){0};
    seats[MAKER] = (struct cofi__fast_seat){.pid = getpid(), .tid = getpid(), .placed = true};
    return c;
}

static void take(struct cofi__fast_collector *c, int32_t pid, int32_t tid, int32_t child)
{
    struct cofi__fast_slot *slot = &cofi__fast_slot(c, SLOT)->head;
    slot->state = COFI__FAST_SLOT_LIVE;
    slot->pid = pid;
    slot->tid = tid;
    slot->nested = 1;
    slot->maker = MAKER;
    slot->child = UINT64_C(7) << 32 | (uint32_t)child;
}

/* The first thread's slot was freed: what is known of it since then is in the seats of those that it made. */
static void test_thread_outlives_its_maker(void **state)
{
    (void)state;
    struct cofi__fast_collector *c = begin();
    take(c, 1, 2, 0);
    cofi__fast_slot(c, SLOT)->head.state = COFI__FAST_SLOT_ENDED;
    seats[MAKER] = (struct cofi__fast_seat){0};
    seats[SLOT].maker_pid = seats[SLOT].maker_tid = COFI__FAST_NO_NUMBER + 5;
    cofi__fast_place(c, SLOT);
    assert_int_equal(seats[SLOT].pid, COFI__FAST_NO_NUMBER + 5);
    assert_int_equal(seats[SLOT].tid, COFI__FAST_NO_NUMBER);
    free(c->shared);
}

/* A process 1 that has ended, and is there until it is waited for; -1: not permitted here. */
static pid_t first_of_namespace(void)
{
    siginfo_t info;
    pid_t pid = (pid_t)syscall(SYS_clone, (geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (!pid)
        _exit(0);
    if (pid > 0)
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    return pid;
}

/* Both are process 1, and children of the same one. */
static void test_number_that_the_maker_has(void **state)
{
    (void)state;
    pid_t pids[2] = {first_of_namespace(), first_of_namespace()};
    if (pids[1] < 0)
        return;
    for (int i = 0; i < 2; i++) {
        struct cofi__fast_collector *c = begin();
        take(c, 1, 1, pids[i]);
        cofi__fast_place(c, SLOT);
        assert_int_equal(seats[SLOT].pid, pids[i]);
        assert_int_equal(seats[SLOT].tid, pids[i]);
        free(c->shared);
    }
    waitpid(pids[0], NULL, 0);
    struct cofi__fast_collector *c = begin();
    take(c, 1, 1, pids[0]); /* gone: the other one it is not */
    cofi__fast_place(c, SLOT);
    assert_int_equal(seats[SLOT].pid, COFI__FAST_NO_NUMBER);
    free(c->shared);
    waitpid(pids[1], NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_outlives_its_maker),
        cmocka_unit_test(test_number_that_the_maker_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

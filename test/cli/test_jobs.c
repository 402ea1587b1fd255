/* SPDX-License-Identifier: MIT
 * What jobs write comes out as if they were done one after another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include <sched.h>

#include "cli/jobs.h"

enum { JOBS = 300, PIECE = 1 << 10 };

/* Redirect standard output into memory while jobs run; its bytes, to be freed. */
static char *run(jobs_do *work, void *opaque, unsigned threads, int *status, size_t *n)
{
    int file = memfd_create("out", 0), kept = dup(1);
    fflush(stdout);
    dup2(file, 1);
    *status = jobs_run(JOBS, threads, work, opaque);
    dup2(kept, 1);
    close(kept);
    *n = (size_t)lseek(file, 0, SEEK_END);
    char *bytes = malloc(*n + 1);
    assert_int_equal(pread(file, bytes, *n, 0), (ssize_t)*n);
    close(file);
    return bytes;
}

static int write_lines(void *opaque, size_t i)
{
    char line[64];
    (void)opaque;
    for (size_t k = 0; k < 1 + i * 7 % 40; k++)
        jobs_write(1, line, (size_t)snprintf(line, sizeof line, "job %zu line %zu\n", i, k));
    return 0;
}

/* With 2 to `most` threads as with one; all end with `status`. */
static void same_output(int (*work)(void *opaque, size_t i), unsigned most, int expected)
{
    int status;
    size_t n, more;
    char *serial = run(work, NULL, 1, &status, &n);
    assert_int_equal(status, expected);
    for (unsigned threads = 2; threads <= most; threads++) {
        char *parallel = run(work, NULL, threads, &status, &more);
        assert_int_equal(status, expected);
        assert_int_equal(more, n);
        assert_memory_equal(parallel, serial, n);
        free(parallel);
    }
    free(serial);
}

static void output_is_that_of_one_thread(void **state)
{
    (void)state;
    same_output(write_lines, 9, 0);
}

static int fail_at_100(void *opaque, size_t i)
{
    write_lines(opaque, i);
    return i == 100 ? 3 : i == 250 ? 4 : 0;
}

static void what_is_behind_a_failure_is_not_seen(void **state)
{
    (void)state;
    same_output(fail_at_100, 5, 3);
}

/* Job 0 writes nothing until the others hold nearly all that may be held: then some of them must wait for it. */
static int write_much(void *opaque, size_t i)
{
    atomic_size_t *written = opaque;
    static char piece[PIECE];
    while (i == 0 && atomic_load(written) < JOBS_HELD_MAX - (1 << 20))
        sched_yield();
    for (size_t k = 0; k < (1 << 20) / PIECE; k++) {
        char mine[PIECE];
        memcpy(mine, piece, sizeof mine);
        memcpy(mine, &i, sizeof i);
        jobs_write(1, mine, sizeof mine);
        atomic_fetch_add(written, i ? sizeof mine : 0);
    }
    return 0;
}

static void what_waits_is_bounded(void **state)
{
    (void)state;
    atomic_size_t written = 0;
    int status;
    size_t n;
    char *bytes = run(write_much, &written, 4, &status, &n);
    assert_int_equal(n, (size_t)JOBS << 20);
    for (size_t at = 0; at < n; at += PIECE) {
        size_t i;
        memcpy(&i, bytes + at, sizeof i);
        assert_int_equal(i, at >> 20);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_that_of_one_thread),
        cmocka_unit_test(what_is_behind_a_failure_is_not_seen),
        cmocka_unit_test(what_waits_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

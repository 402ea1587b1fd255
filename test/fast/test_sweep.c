/* SPDX-License-Identifier: MIT
 * What is taken away of a folder of kept code. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/fast/keep.h"

static char folder[] = "/tmp/sweep-XXXXXX";
static int dir;

static int begin(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    return !mkdtemp(folder) || (dir = open(folder, O_RDONLY | O_DIRECTORY)) < 0;
}

static int end(void **state)
{
    (void)state;
    cofi__fast_sweep(dir, 0, 0);
    unlinkat(dir, "notes", 0);
    unlinkat(dir, "folder.cofi-code", AT_REMOVEDIR);
    close(dir);
    return rmdir(folder);
}

/* A file of so many bytes that was used at that second. */
static void make(const char *name, size_t bytes, time_t used)
{
    static const char zeros[1000];
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, zeros, bytes), bytes);
    assert_return_code(futimens(fd, (struct timespec[2]){{used, 0}, {used, 500}}), 0);
    close(fd);
}

static bool is_there(const char *name)
{
    return !faccessat(dir, name, F_OK, 0);
}

static void make_three(void)
{
    make("b.cofi-code", 100, 20);
    make("a.cofi-code", 200, 30);
    make("c.cofi-code", 300, 10);
}

static void what_fits_stays(void **state)
{
    (void)state;
    make_three();
    cofi__fast_sweep(dir, 3, 600);
    assert_true(is_there("a.cofi-code") && is_there("b.cofi-code") && is_there("c.cofi-code"));
}

static void too_many_the_oldest_goes(void **state)
{
    (void)state;
    make_three();
    cofi__fast_sweep(dir, 2, 600);
    assert_true(is_there("a.cofi-code") && is_there("b.cofi-code") && !is_there("c.cofi-code"));
    cofi__fast_sweep(dir, 1, 600);
    assert_true(is_there("a.cofi-code") && !is_there("b.cofi-code"));
}

/* Several recordings a second are usual. */
static void within_a_second_the_oldest_goes_too(void **state)
{
    (void)state;
    static const char *const names[] = {"b.cofi-code", "c.cofi-code", "a.cofi-code"};
    for (long i = 0; i < 3; i++) {
        make(names[i], 100, 20);
        assert_return_code(utimensat(dir, names[i], (struct timespec[2]){{20, 0}, {20, 100 + i}}, 0), 0);
    }
    cofi__fast_sweep(dir, 2, 600);
    assert_true(!is_there("b.cofi-code") && is_there("c.cofi-code") && is_there("a.cofi-code"));
    cofi__fast_sweep(dir, 1, 600);
    assert_true(is_there("a.cofi-code") && !is_there("c.cofi-code"));
}

static void too_large_the_oldest_go(void **state)
{
    (void)state;
    make_three();
    cofi__fast_sweep(dir, 3, 599);
    assert_true(is_there("a.cofi-code") && is_there("b.cofi-code") && !is_there("c.cofi-code"));
    cofi__fast_sweep(dir, 3, 200);
    assert_true(is_there("a.cofi-code") && !is_there("b.cofi-code"));
}

static void what_is_not_ours_stays(void **state)
{
    (void)state;
    make("notes", 900, 1);
    make("a.cofi-code", 100, 10);
    assert_return_code(mkdirat(dir, "folder.cofi-code", 0700), 0);
    cofi__fast_sweep(dir, 1, 100);
    assert_true(is_there("notes") && is_there("folder.cofi-code") && is_there("a.cofi-code"));
    cofi__fast_sweep(dir, 0, 0);
    assert_true(is_there("notes") && is_there("folder.cofi-code") && !is_there("a.cofi-code"));
}

/* One that was left half written is like any other. */
static void names_with_a_process_are_ours(void **state)
{
    (void)state;
    make("12-a.cofi-code", 100, 10);
    make("a.cofi-code", 100, 20);
    cofi__fast_sweep(dir, 1, 200);
    assert_true(!is_there("12-a.cofi-code") && is_there("a.cofi-code"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_fits_stays, begin, end),
        cmocka_unit_test_setup_teardown(too_many_the_oldest_goes, begin, end),
        cmocka_unit_test_setup_teardown(within_a_second_the_oldest_goes_too, begin, end),
        cmocka_unit_test_setup_teardown(too_large_the_oldest_go, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_ours_stays, begin, end),
        cmocka_unit_test_setup_teardown(names_with_a_process_are_ours, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Bytes that are written whole, or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"

/* The kernel writes what fits, and says so only when asked for more. */
static void a_file_that_is_full_half_way_is_an_error(void **state)
{
    (void)state;
    enum { LIMIT = 1000, BYTES = 3000 };
    static const char bytes[BYTES];
    struct rlimit before, limit;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = LIMIT;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int full = cofi__write_all(fileno(file), bytes, BYTES);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(full, -EFBIG);
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), LIMIT);
    assert_int_equal(cofi__write_all(fileno(file), bytes, BYTES), 0);
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), LIMIT + BYTES);
    fclose(file);
}

static void what_cannot_be_written_to_says_why(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY);
    assert_int_equal(cofi__write_all(full, "x", 1), -ENOSPC);
    close(full);
    assert_int_equal(cofi__write_all(-1, "x", 1), -EBADF);
    assert_int_equal(cofi__write_all(-1, "x", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_full_half_way_is_an_error),
        cmocka_unit_test(what_cannot_be_written_to_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

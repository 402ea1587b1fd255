/* SPDX-License-Identifier: MIT
 * Commands started by a process that does things of its own when it forks, as those with a sanitizer's runtime do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cofi/error.h>
#include <cofi/fast.h>
#include <cofi/host.h>

static void *stay(void *nothing)
{
    pause();
    return nothing;
}

/* Late enough for the child to be seized. */
static void begin_a_thread(void)
{
    pthread_t thread;
    usleep(100000);
    if (pthread_create(&thread, NULL, stay, NULL))
        _exit(99);
}

static void nothing_but_the_command_is_recorded(void **state)
{
    (void)state;
    char *argv[] = {"/bin/true", NULL};
    struct cofi_step_options options = {.size = sizeof options, .argv = argv};
    struct cofi_step_result result = {0};
    struct cofi_error error = {0};
    assert_int_equal(cofi_step_run(&options, &result, &error), 0);
    assert_true(result.started && WIFEXITED(result.wait_status));
    assert_int_equal(WEXITSTATUS(result.wait_status), 0);
    assert_int_equal(result.tasks, 1);
    assert_in_range(result.insns, 1000, 1000000);
}

/* In a folder with nothing in it, as its root: what both hosts say, and whether they began. */
static int record_in(const char *root)
{
    char *argv[] = {"/bin/true", NULL};
    struct cofi_step_options stepped = {.size = sizeof stepped, .argv = argv};
    struct cofi_fast_options fast = {.size = sizeof fast, .argv = argv};
    struct cofi_step_result step;
    struct cofi_fast_result recorded;
    if (chroot(root) || chdir("/"))
        return 2;
    if (cofi_step_run(&stepped, &step, NULL) != COFI_ERR_SYSTEM || step.started)
        return 1;
    int status = cofi_fast_record(&fast, &recorded, NULL);
    return (status != COFI_ERR_SYSTEM && status != COFI_ERR_UNSUPPORTED) || recorded.started;
}

/* Neither could follow it: one killed it, the other recorded nothing of it. */
static void without_proc_nothing_is_started(void **state)
{
    (void)state;
    char root[] = "/tmp/cofi-launch-XXXXXX";
    int status;
    assert_non_null(mkdtemp(root));
    pid_t pid = fork();
    if (!pid)
        _exit(record_in(root));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(status, 0);
}

/* The first pipe is made, the second is not. */
static void without_descriptors_none_is_left_open(void **state)
{
    (void)state;
    char *argv[] = {"/bin/true", NULL};
    struct cofi_step_options options = {.size = sizeof options, .argv = argv};
    struct cofi_step_result result = {0};
    struct cofi_error error = {0};
    struct rlimit old, few;
    int next = dup(0);
    assert_int_equal(close(next), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = (struct rlimit){(rlim_t)next + 3, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(cofi_step_run(&options, &result, &error), COFI_ERR_SYSTEM);
    assert_int_equal(dup(0), next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_string_equal(error.text, "pipe: Too many open files");
    close(next);
}

int main(void)
{
    pthread_atfork(NULL, NULL, begin_a_thread);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_but_the_command_is_recorded),
        cmocka_unit_test(without_descriptors_none_is_left_open),
        cmocka_unit_test(without_proc_nothing_is_started),
    };
    if (geteuid()) /* no chroot; not skip(): cmocka's TAP says "not ok" of that */
        cmocka_set_skip_filter("without_proc_*");
    return cmocka_run_group_tests_name("host-launch", tests, NULL, NULL);
}

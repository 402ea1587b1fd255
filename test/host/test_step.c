/* SPDX-License-Identifier: MIT
 * The step host in a process that has children, signals and threads of its own; and programs let go of in the middle of things. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cofi/host.h>

static char *guest;

static struct cofi_step_result run(struct cofi_step_options options, const char *word)
{
    char *argv[] = {guest, (char *)word, NULL};
    struct cofi_step_result result = {0};
    struct cofi_error error = {0};
    options.size = sizeof options;
    if (word)
        options.argv = argv;
    assert_int_equal(cofi_step_run(&options, &result, &error), 0);
    assert_true(result.started);
    if (result.left) /* not known yet */
        assert_int_equal(result.wait_status, 0);
    cofi_step_wait(&result, NULL);
    return result;
}

static pid_t begin_a_child(int status)
{
    pid_t pid = fork();
    if (!pid)
        _exit(status);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    return pid;
}

/* ---- the process that records ---- */

static void a_child_that_is_not_recorded_is_left_to_its_parent(void **state)
{
    (void)state;
    pid_t pid = begin_a_child(3);
    int status = 0;
    struct cofi_step_result result = run((struct cofi_step_options){0}, "children");
    assert_int_equal(WEXITSTATUS(result.wait_status), 9);
    assert_int_equal(result.processes, 3);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 3);
}

static volatile int reaped;

static void reap_all(int signal)
{
    (void)signal;
    int status, saved = errno;
    while (waitpid(-1, &status, WNOHANG) > 0)
        reaped++;
    errno = saved;
}

static void a_handler_that_waits_for_all_children_takes_none_of_the_program_s(void **state)
{
    (void)state;
    struct sigaction old, action = {.sa_handler = reap_all};
    sigaction(SIGCHLD, &action, &old);
    struct cofi_step_result result = run((struct cofi_step_options){0}, "children");
    sigaction(SIGCHLD, &old, NULL);
    assert_int_equal(WEXITSTATUS(result.wait_status), 9);
    assert_int_equal(result.processes, 3);
    assert_int_equal(reaped, 0);
}

static void the_interval_timer_stays_the_caller_s(void **state)
{
    (void)state;
    struct itimerval mine = {{0}, {1000, 0}}, left = {0};
    setitimer(ITIMER_REAL, &mine, NULL);
    run((struct cofi_step_options){0}, "exit");
    getitimer(ITIMER_REAL, &left);
    assert_in_range(left.it_value.tv_sec, 900, 1000);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

static void the_program_has_the_caller_s_signal_mask(void **state)
{
    (void)state;
    struct cofi_step_result result = run((struct cofi_step_options){0}, "mask");
    assert_int_equal(WEXITSTATUS(result.wait_status), 0);
}

static void waits_that_let_signals_in_end_while_the_program_blocks_traps(void **state)
{
    (void)state;
    struct cofi_step_result result = run((struct cofi_step_options){0}, "waits");
    assert_int_equal(WEXITSTATUS(result.wait_status), 8);
}

static volatile int stop;
static volatile int32_t started;

/* It waits in the kernel, where only a signal makes the recorder look at `stop`. */
static bool is_asleep(void)
{
    char name[64], state = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", (int)started);
    FILE *f = started ? fopen(name, "re") : NULL;
    if (f && fscanf(f, "%*d %*s %c", &state) != 1)
        state = 0;
    if (f)
        fclose(f);
    return state == 'S';
}

static void *run_elsewhere(void *result)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    *(struct cofi_step_result *)result = run((struct cofi_step_options){.stop = &stop, .started = &started}, "sleep");
    return NULL;
}

static void a_run_in_another_thread_that_blocks_all_signals_can_be_stopped(void **state)
{
    (void)state;
    struct cofi_step_result result;
    pthread_t thread;
    stop = 0;
    assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, &result), 0);
    for (int n = 0; n < 20; n = is_asleep() ? n + 1 : 0)
        usleep(10000);
    stop = 2;
    pthread_join(thread, NULL);
    assert_true(WIFSIGNALED(result.wait_status));
}

/* ---- letting go ---- */

static void who_waits_for_a_child_of_vfork_is_let_go_with_it(void **state)
{
    (void)state;
    struct cofi_step_result all = run((struct cofi_step_options){0}, "vfork");
    assert_int_equal(all.tasks, 2);
    struct cofi_step_result result = run((struct cofi_step_options){.limit = all.insns - 20000}, "vfork");
    assert_int_equal(result.tasks, 2);
    assert_int_equal(result.insns, all.insns - 20000);
    assert_int_equal(WEXITSTATUS(result.wait_status), 7);
}

static pid_t begin_guest(const char *word)
{
    pid_t pid = fork();
    if (!pid) {
        execl(guest, guest, word, (char *)NULL);
        _exit(99);
    }
    return pid;
}

static void a_process_whose_first_thread_has_ended_is_attached_to_and_followed_through_exec(void **state)
{
    (void)state;
    pid_t pid = begin_guest("headless");
    usleep(300000);
    struct cofi_step_result result = run((struct cofi_step_options){.pid = pid}, NULL);
    assert_int_equal(WEXITSTATUS(result.wait_status), 5);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
    assert_int_equal(result.tasks, 2);
    assert_in_range(result.insns, 1000, 1000000);
}

static void a_process_that_begins_children_all_the_time_is_attached_to_and_let_go(void **state)
{
    (void)state;
    int status;
    pid_t pid = begin_guest("children-for-ever");
    for (int i = 0; i < 3; i++) {
        usleep(100000);
        struct cofi_step_result result = run((struct cofi_step_options){.pid = pid, .limit = 1000 + 500 * (unsigned)i}, NULL);
        assert_int_equal(result.insns, 1000 + 500 * i);
    }
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static int refuse_insn(void *opaque, const struct cofi_task *task, uint64_t ip, bool software_interrupt)
{
    (void)opaque, (void)task, (void)ip, (void)software_interrupt;
    return COFI_ERR_GP;
}

static void an_error_of_an_observer_has_a_text(void **state)
{
    (void)state;
    char *argv[] = {guest, "exit", NULL};
    const struct cofi_observer observer = {.insn = refuse_insn}, *list = &observer;
    struct cofi_step_options options = {.size = sizeof options, .argv = argv, .observers = &list, .observers_n = 1};
    struct cofi_step_result result;
    struct cofi_error error;
    assert_int_equal(cofi_step_run(&options, &result, &error), COFI_ERR_GP);
    cofi_step_wait(&result, NULL);
    assert_true(WIFEXITED(result.wait_status));
    assert_int_equal(error.code, COFI_ERR_GP);
    assert_string_equal(error.text, "#GP(0)");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 99;
    guest = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_is_not_recorded_is_left_to_its_parent),
        cmocka_unit_test(a_handler_that_waits_for_all_children_takes_none_of_the_program_s),
        cmocka_unit_test(the_interval_timer_stays_the_caller_s),
        cmocka_unit_test(the_program_has_the_caller_s_signal_mask),
        cmocka_unit_test(waits_that_let_signals_in_end_while_the_program_blocks_traps),
        cmocka_unit_test(a_run_in_another_thread_that_blocks_all_signals_can_be_stopped),
        cmocka_unit_test(who_waits_for_a_child_of_vfork_is_let_go_with_it),
        cmocka_unit_test(a_process_whose_first_thread_has_ended_is_attached_to_and_followed_through_exec),
        cmocka_unit_test(a_process_that_begins_children_all_the_time_is_attached_to_and_let_go),
        cmocka_unit_test(an_error_of_an_observer_has_a_text),
    };
    return cmocka_run_group_tests_name("host-step", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * A caller of cofi_fast_record that has its own word for the end of children, and what the command sees of that. */
#include <cofi/fast.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static volatile sig_atomic_t heard;

static void on_child(int signo)
{
    heard += signo == SIGCHLD;
}

/* Status of grep; 128: it was not recorded. Without a match, 1. */
static int record(const char *pattern)
{
    char *argv[] = {"grep", "-q", (char *)(uintptr_t)pattern, "/proc/self/status", NULL};
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv};
    struct cofi_fast_result r;
    if (cofi_fast_record(&o, &r, NULL) < 0 || !WIFEXITED(r.wait_status))
        return 128;
    return WEXITSTATUS(r.wait_status);
}

static void test_handler_stays(void **state)
{
    (void)state;
    struct sigaction mine = {.sa_handler = on_child}, now;
    sigaction(SIGCHLD, &mine, NULL);
    assert_int_equal(record("no such line"), 1);
    assert_true(heard > 0);
    sigaction(SIGCHLD, NULL, &now);
    assert_ptr_equal(now.sa_handler, on_child);
}

/* Bit 16 of SigIgn is SIGCHLD's. */
static void test_command_inherits(void **state)
{
    (void)state;
    const char *ignored = "^SigIgn:.*[13579bdf]....$";
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(record(ignored), 1);
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(record(ignored), 0);
    signal(SIGCHLD, SIG_DFL);
}

/* A thread is one thread, whatever it executes. */
static void test_exec_is_no_thread(void **state)
{
    (void)state;
    char *argv[] = {"sh", "-c", "sh -c 'exec true'; exec true", NULL};
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv};
    struct cofi_fast_result r;
    assert_int_equal(cofi_fast_record(&o, &r, NULL), 0);
    assert_int_equal(r.tasks, 2);
    assert_int_equal(r.processes, 2);
}

/* A child that ends with a status after some microseconds. */
static pid_t make_child(int status, unsigned us)
{
    pid_t pid = fork();
    if (!pid) {
        usleep(us);
        _exit(status);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Those that end before the recording begins, during it, and after. */
static void test_others_are_the_callers(void **state)
{
    (void)state;
    pid_t before = make_child(3, 0), during = make_child(4, 50000), after = make_child(5, 600000);
    char *argv[] = {"sh", "-c", "sleep 0.2; sh -c 'exec sh -c \"exit 0\"'; exec sh -c 'exit 6'", NULL};
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv};
    struct cofi_fast_result r;
    assert_int_equal(cofi_fast_record(&o, &r, NULL), 0);
    assert_int_equal(WEXITSTATUS(r.wait_status), 6);
    assert_int_equal(status_of(before), 3);
    assert_int_equal(status_of(during), 4);
    assert_int_equal(status_of(after), 5);
    assert_int_equal(waitpid(-1, NULL, __WALL), -1);
}

/* Attached to, it is still the caller's to wait for, whatever it executes. */
static void test_attached_child(void **state)
{
    (void)state;
    for (int executes = 0; executes < 2; executes++) {
        pid_t pid = fork();
        if (!pid) {
            usleep(300000);
            if (executes)
                execlp("sh", "sh", "-c", "exit 7", NULL);
            _exit(7);
        }
        struct cofi_fast_options o = {.size = sizeof o, .pid = pid};
        struct cofi_fast_result r;
        assert_int_equal(cofi_fast_record(&o, &r, NULL), 0);
        assert_int_equal(r.wait_status, 0);
        assert_int_equal(status_of(pid), 7);
    }
}

static int count_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* However few files may be open, none stays so, and no child. */
static void test_few_files(void **state)
{
    (void)state;
    char *argv[] = {"true", NULL}, path[] = "/tmp/cofi-children-XXXXXX";
    int first = mkstemp(path), before = count_files(), status = -1;
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv, .path = path};
    struct cofi_fast_result r;
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    for (int more = 1; status < 0; more++) {
        struct rlimit few = {(rlim_t)(first + more), old.rlim_max};
        struct cofi_error error = {0};
        assert_true(more < 30);
        setrlimit(RLIMIT_NOFILE, &few);
        status = cofi_fast_record(&o, &r, &error);
        setrlimit(RLIMIT_NOFILE, &old);
        assert_true(status == 0 || error.text[0]);
        assert_int_equal(count_files(), before);
        assert_int_equal(waitpid(-1, NULL, __WALL), -1);
    }
    unlink(path);
    close(first);
}

/* The end of the command is taken by the kernel. */
static void test_ignored_end(void **state)
{
    (void)state;
    char *argv[] = {"/no/such/command", NULL};
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv};
    struct cofi_fast_result r;
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 50; i++)
        assert_int_equal(cofi_fast_record(&o, &r, NULL), COFI_ERR_NOT_FOUND);
    signal(SIGCHLD, SIG_DFL);
}

/* Who is being traced itself cannot record; its child, which waits to be seized, ends. */
static void test_refused(void **state)
{
    (void)state;
    int status, gate[2];
    char byte;
    assert_int_equal(pipe(gate), 0);
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(record("Name"));
    }
    close(gate[1]); /* held by those two now */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL), 0);
    do
        ptrace(PTRACE_CONT, pid, 0, 0);
    while (waitpid(pid, &status, 0) == pid && !WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128);
    pid_t child = waitpid(-1, &status, __WALL); /* traced from its start, it has stopped */
    assert_true(child > 0 && WIFSTOPPED(status));
    do
        ptrace(PTRACE_CONT, child, 0, 0);
    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status));
    assert_int_equal(read(gate[0], &byte, 1), 0);
    close(gate[0]);
}

/* What the kernel refuses us, in a process of its own: no descriptor, no child stays. */
static void in_a_child(int (*refused)(void))
{
    pid_t pid = fork();
    if (!pid)
        _exit(refused());
    assert_int_equal(status_of(pid), 0);
}

static int without_fork(void)
{
    struct rlimit none = {0, 0};
    if (setgid(65534) || setuid(65534) || setrlimit(RLIMIT_NPROC, &none) || fork() >= 0)
        return 0; /* cannot be tried here */
    int before = count_files();
    return record("Name") != 128 || count_files() != before;
}

/* ptrace fails, as in a container. */
static int without_ptrace(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 0;
    int before = count_files();
    if (record("Name") != 128 || count_files() != before)
        return 1;
    return waitpid(-1, NULL, __WALL) != -1;
}

static void test_nothing_stays(void **state)
{
    (void)state;
    in_a_child(without_fork);
    in_a_child(without_ptrace);
}

/* What is too small is as small as it can be, what no process has room for is refused. */
static void test_sizes(void **state)
{
    (void)state;
    char *argv[] = {"true", NULL};
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv, .cache_bytes = 1, .snapshot_bytes = 1};
    struct cofi_fast_result r;
    assert_int_equal(cofi_fast_record(&o, &r, NULL), 0);
    assert_int_equal(r.wait_status, 0);
    for (unsigned bits = 47; bits <= 64; bits++) {
        o.snapshot_bytes = UINT64_MAX >> (64 - bits);
        assert_int_equal(cofi_fast_record(&o, &r, NULL), COFI_ERR_UNSUPPORTED);
        assert_false(r.started);
    }
}

int main(void)
{
    alarm(60);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handler_stays),
        cmocka_unit_test(test_command_inherits), cmocka_unit_test(test_exec_is_no_thread),
        cmocka_unit_test(test_others_are_the_callers), cmocka_unit_test(test_attached_child),
        cmocka_unit_test(test_few_files), cmocka_unit_test(test_ignored_end), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nothing_stays), cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Guests whose calls the kernel takes otherwise than they look: halves of registers, arguments that it finds wrong late. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code.h"
#include "guests.h"

static void say(const char *what, long r)
{
    printf("%s: %ld %s\n", what, r < 0 ? -1 : r, r < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static volatile int usr1s;

static void on_usr1(int signo)
{
    (void)signo;
    usr1s++;
}

/* Of a register that is half as wide to the kernel the upper half says nothing: clone's flags (bit 32 is clone3's CLONE_CLEAR_SIGHAND), seccomp's,
 * what arch_prctl is to do, and a descriptor. */
int guest_upper_halves(void)
{
    const uint64_t upper = 0x300000000;
    uint64_t base = 0;
    int status, fd = open("/proc/self/mem", O_RDWR);
    uint8_t code[RETURN_BYTES], *p = pages(PROT_READ | PROT_EXEC);
    say("set gs", syscall(SYS_arch_prctl, upper | 0x1001, 0x12345000));
    say("get gs", syscall(SYS_arch_prctl, upper | 0x1004, &base));
    say("base", (long)base);
    for (int i = 0; i < 2; i++) {
        put_return(code, 100 + i);
        say("written", syscall(SYS_pwrite64, (i ? upper : 0) | (uint32_t)fd, code, sizeof code, p));
        say("code", call(p));
    }
    signal(SIGUSR1, on_usr1);
    if (!syscall(SYS_clone, 0xff00000000 | SIGCHLD, 0, 0, 0, 0)) {
        raise(SIGUSR1);
        _exit(usr1s);
    }
    wait(&status);
    say("clone", status);
    if (!fork()) {
        syscall(SYS_seccomp, 0, 1ul << 32, 0);
        syscall(SYS_exit, syscall(SYS_getppid) > 0);
    }
    wait(&status);
    say("seccomp", status);
    return 0;
}

static uint8_t *watched;

/* Code that may change has run, so its page is watched for writes. */
static void run_watched(void)
{
    static int runs;
    put_return(watched, ++runs);
    if (call(watched) != runs)
        puts("old code");
}

static void ended_child(void)
{
    siginfo_t info;
    if (!fork())
        _exit(3);
    waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
}

static int listener(void)
{
    struct sockaddr_un name = {AF_UNIX, "\0cofi calls"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), other = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "cofi calls %d", getpid());
    return bind(fd, (void *)&name, sizeof name) || listen(fd, 1) || connect(other, (void *)&name, sizeof name) ? -1 : fd;
}

/* A call that takes something before it fails for its argument is made once. */
int guest_made_once(void)
{
    void *volatile nowhere = (void *)8;
    int datagrams[2], event = eventfd(5, EFD_NONBLOCK), fd = listener();
    char byte;
    watched = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    ended_child();
    run_watched();
    say("wait4", syscall(SYS_wait4, -1, nowhere, 0, 0));
    run_watched();
    say("read", read(event, nowhere, 8));
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, datagrams);
    if (write(datagrams[0], "a", 1) + write(datagrams[0], "b", 1) != 2)
        return 1;
    run_watched();
    say("recv", recv(datagrams[1], nowhere, 1, 0));
    say("recv again", recv(datagrams[1], &byte, 1, 0));
    run_watched();
    say("accept", accept(fd, nowhere, nowhere));
    return 0;
}

static void *forbidden(void *how)
{
    int interrupt = how != NULL, r;
    prctl(PR_SET_SECCOMP, 1);
    if (interrupt)
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(64) : "memory", "r8", "r9", "r10", "r11"); /* getppid */
    else
        r = (int)syscall(SYS_getppid);
    syscall(SYS_exit, r);
    return NULL;
}

/* In the strict mode of seccomp what is forbidden ends the thread, not the process. */
int guest_strict_threads(void)
{
    pthread_t thread;
    for (uintptr_t interrupt = 0; interrupt < 2; interrupt++) {
        pthread_create(&thread, NULL, forbidden, (void *)interrupt);
        pthread_join(thread, NULL);
        say("others live", usr1s);
    }
    int status;
    if (!fork())
        forbidden(&thread);
    wait(&status);
    say("alone", status);
    return 0;
}

/* A base of GS that no program can have is refused. */
int guest_gs_ends(void)
{
    static const uint64_t bases[] = {0x7ffffffffffful, 0x7ffffffff000ul, 0x7fffffffefff, UINT64_MAX};
    uint64_t now = 0;
    for (unsigned i = 0; i < sizeof bases / sizeof bases[0]; i++)
        say("gs", syscall(SYS_arch_prctl, 0x1001, bases[i]));
    syscall(SYS_arch_prctl, 0x1004, &now);
    printf("%llx\n", (unsigned long long)now);
    return 0;
}

enum { THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };
static volatile int spins, way;
static uint8_t stacks[4][65536] __attribute__((aligned(64)));

static int spin(void *unused)
{
    (void)unused;
    for (;;)
        spins++;
    return 0;
}

/* The process ends by exit_group or an exec, in this thread, while another one runs. */
static int end_process(void *unused)
{
    static char *const none[] = {NULL}, *const argv[] = {"sh", "-c", "exit 22", NULL};
    (void)unused;
    while (!spins)
        ;
    if (way & 1)
        syscall(SYS_execve, "/bin/sh", argv, none);
    syscall(SYS_exit_group, 21);
    return 0;
}

static int with_threads(void *unused)
{
    spins = 0;
    clone(spin, stacks[1] + sizeof stacks[1], THREAD, NULL);
    if (way & 2)
        return end_process(unused);
    clone(end_process, stacks[2] + sizeof stacks[2], THREAD, NULL);
    for (;;)
        syscall(SYS_sched_yield);
    return 0;
}

/* A process that shares its parent's memory has threads of its own and ends: the parent's go on. */
int guest_threads_beside(void)
{
    for (way = 0; way < 4; way++) {
        int status = 0;
        pid_t p = clone(with_threads, stacks[0] + sizeof stacks[0], CLONE_VM | SIGCHLD, NULL);
        waitpid(p, &status, 0);
        say("beside", status);
        usr1s += snprintf((char *)stacks[3], sizeof stacks[3], "%g", 0.5 * way);
    }
    say("written", usr1s);
    return 0;
}

/* Limits of memory so large that they are none. */
int guest_limits_far(void)
{
    static const uint64_t limits[] = {RLIM_INFINITY - 1, UINT64_MAX << 24, UINT64_MAX >> 1, 1ul << 47};
    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit l = {limits[i], limits[i]};
        say("set", setrlimit(RLIMIT_AS, &l));
        say("get", getrlimit(RLIMIT_AS, &l));
        printf("%llx %llx\n", (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
    }
    return 0;
}

/* SPDX-License-Identifier: MIT
 * What is seldom: a selector in GS, the flag ID, the trap flag, and a wait at a socket that has a time-out, each in a thread of its own until `let` is
 * there. Says whether each is as it was. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile char let;
static volatile long traps;
static int sockets[2];
static void on_trap(int s) { traps++; (void)s; }

static void *flags(void *p)
{
    unsigned long got = 0;
    unsigned short gs = 0;
    __asm__ volatile("pushq $0x200202\n popfq\n mov %3, %%gs\n 1: pause\n cmpb $0, %2\n je 1b\n pushfq\n pop %0\n mov %%gs, %1"
                     : "=&r"(got), "=&r"(gs) : "m"(let), "r"(0x2b) : "cc", "memory");
    printf("ID %lx, GS %x\n", got & 0x200000, gs);
    return p;
}

/* Sleeps a while in each turn, with the trap flag set all the time. Returns the turns. */
static volatile long last;
static long step(long until)
{
    struct timespec ms = {0, 10000000};
    long turns = 0;
    last = until;
    traps = 0;
    __asm__ volatile("pushfq\n orl $0x100, (%%rsp)\n popfq\n 1: mov $35, %%eax\n syscall\n inc %0\n cmp %1, %0\n jl 1b\n"
                     "pushfq\n andl $~0x100, (%%rsp)\n popfq"
                     : "+r"(turns) : "m"(last), "D"(&ms), "S"(0) : "rax", "rcx", "r11", "cc", "memory");
    return turns;
}

static void *steps(void *p)
{
    return (void *)step(1000000);
}

static void *receive(void *p)
{
    char c = 0;
    struct timeval limit = {60, 0};
    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    long n = recv(sockets[0], &c, 1, 0);
    printf("received %ld %d\n", n, n < 0 ? errno : c);
    return p;
}

int main(void)
{
    pthread_t t[3];
    void *turns;
    signal(SIGTRAP, on_trap);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    step(1);
    long of_one = traps;
    step(2);
    long more = traps - of_one;
    pthread_create(&t[0], NULL, flags, NULL);
    pthread_create(&t[1], NULL, steps, NULL);
    pthread_create(&t[2], NULL, receive, NULL);
    fclose(fopen("stepping", "w"));
    while (access("let", F_OK))
        usleep(20000);
    let = 1;
    last = 0;
    pthread_join(t[0], NULL);
    pthread_join(t[1], &turns);
    write(sockets[1], "*", 1);
    pthread_join(t[2], NULL);
    printf("%s\n", traps == of_one + ((long)turns - 1) * more ? "each its trap" : "other traps");
    return 0;
}

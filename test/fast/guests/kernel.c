/* SPDX-License-Identifier: MIT
 * Guests with data that the kernel writes beside code that runs. */
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code.h"
#include "guests.h"

enum { PAGE = 4096, PAGES = 8 };
enum { THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };

static uint8_t *map_code(size_t n)
{
    return mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Write a function at the begin of each of n pages, and call it. */
static int renew(uint8_t *p, int n, int value)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        put_return(p + i * PAGE, value + i);
        sum += call(p + i * PAGE);
    }
    return sum;
}

/* Pages whose code has run. */
static uint8_t *run_pages(void)
{
    uint8_t *p = map_code(PAGES);
    renew(p, PAGES, 0);
    return p;
}

/* mremap takes code elsewhere: it is written and run there, and where it was. */
int guest_moved(void)
{
    uint8_t *p = map_code(4), *to = map_code(4);
    int sum = renew(p, 4, 0);
    if (mremap(p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
        return 1;
    sum += renew(to, 4, 10);
    uint8_t *both = mremap(to, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    if (both == MAP_FAILED)
        return 1;
    sum += call(both) + renew(both, 4, 20) + renew(to, 4, 30);
    uint8_t *larger = mremap(both, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE), *end = map_code(2);
    if (larger == MAP_FAILED || mremap(larger + 3 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, end) != end)
        return 1;
    sum += call(end) + renew(end, 2, 60) + renew(larger, 3, 70);
    printf("%d\n", sum);
    return 0;
}

static uint8_t *beside;

static int register_beside(void *unused)
{
    (void)unused;
    uint8_t *area = beside + 1024;
    if (syscall(SYS_rseq, area, 32, 0, 0x53053053))
        syscall(SYS_exit, 0);
    int sum = 0;
    for (int i = 0; i < 300; i++) {
        sum += call(beside);
        syscall(SYS_sched_yield);
    }
    *(volatile int *)(beside + 2048) = sum;
    syscall(SYS_exit, 0);
    return 0;
}

/* The kernel tells a thread its processor there, whenever it has lost it. */
int guest_rseq_beside(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    beside = map_code(1);
    put_return(beside, 1);
    pid_t made = clone(register_beside, stack + sizeof stack, THREAD, NULL);
    for (int i = 0; i < 5000 && made > 0 && syscall(SYS_tgkill, getpid(), made, 0) == 0; i++)
        usleep(2000);
    printf("%d\n", *(volatile int *)(beside + 2048));
    return 0;
}

static void *die_locked(void *mutex)
{
    pthread_mutex_lock(mutex);
    call(beside);
    syscall(SYS_exit, 0, 0, 0, 0, 0, 0); /* no register has an address */
    return NULL;
}

/* … and there, in a mutex, that its owner has died. */
int guest_robust_beside(void)
{
    beside = map_code(1);
    pthread_mutex_t *mutex = (pthread_mutex_t *)(beside + 2048);
    pthread_mutexattr_t robust;
    pthread_t thread;
    put_return(beside, 1);
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &robust);
    if (pthread_create(&thread, NULL, die_locked, mutex))
        return 1;
    pthread_join(thread, NULL);
    printf("%s\n", strerror(pthread_mutex_trylock(mutex)));
    return 0;
}

static volatile int done;
static volatile long handled;

static void on_signal(int signo)
{
    (void)signo;
    handled++;
}

static void *call_on(void *code)
{
    long sum = 0;
    while (!done)
        sum += call(code);
    return (void *)sum;
}

/* Handlers whose frames lie beside code that another thread runs. */
int guest_frames_beside(void)
{
    pthread_t thread;
    uint8_t *stack = map_code(10), *code = stack + 9 * PAGE + 16;
    stack_t s = {.ss_sp = stack, .ss_size = 10 * PAGE};
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    put_return(code, 1);
    sigaltstack(&s, NULL);
    sigaction(SIGUSR1, &a, NULL);
    if (pthread_create(&thread, NULL, call_on, code))
        return 1;
    for (int i = 0; i < 20000; i++)
        raise(SIGUSR1);
    done = 1;
    pthread_join(thread, NULL);
    printf("%ld\n", handled);
    return 0;
}

static struct iovec *three(uint8_t *p)
{
    static struct iovec v[3];
    for (int i = 0; i < 3; i++)
        v[i] = (struct iovec){p + 2 * i * PAGE + 100, 100};
    return v;
}

static void tell(const char *what, long result, const uint8_t *last)
{
    printf("%s: %ld, %d\n", what, result, *last);
}

static void take_messages(void)
{
    enum { BYTES = 8000 };
    struct { long type; char bytes[BYTES]; } m = {1, {0}};
    memset(m.bytes, 9, BYTES);
    uint8_t *p = run_pages(), *to = p + 3 * PAGE - BYTES - 4;
    int queue = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
    msgsnd(queue, &m, BYTES, 0);
    long n = msgrcv(queue, to, BYTES, 0, IPC_NOWAIT);
    tell("msgrcv", n, to + sizeof m.type + BYTES - 1);
    msgctl(queue, IPC_RMID, NULL);
}

static void take_queued(void)
{
    struct mq_attr a = {.mq_maxmsg = 2, .mq_msgsize = 8192};
    char name[32], bytes[8192];
    memset(bytes, 5, sizeof bytes);
    snprintf(name, sizeof name, "/guests-%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &a);
    uint8_t *p = run_pages();
    mq_unlink(name);
    mq_send(queue, bytes, sizeof bytes, 0);
    tell("mq_receive", mq_receive(queue, (char *)p + 100, sizeof bytes, NULL), p + 8000);
}

static void take_datagrams(void)
{
    enum { N = 4, MANY = 200 };
    int s[2], received = 0;
    char byte = 'x';
    struct iovec v[N], one = {&byte, 1};
    struct mmsghdr h[N] = {0};
    uint8_t *p = run_pages();
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s);
    for (int i = 0; i < N; i++) {
        v[i] = (struct iovec){p + i * PAGE + 500, 64};
        h[i].msg_hdr = (struct msghdr){.msg_iov = &v[i], .msg_iovlen = 1};
        send(s[1], &(char){(char)('a' + i)}, 1, 0);
    }
    int n = recvmmsg(s[0], h, N, 0, NULL);
    tell("recvmmsg", n, p + 3 * PAGE + 500);
    struct mmsghdr *many = (struct mmsghdr *)(p + 64);
    memset(many, 0, MANY * sizeof *many);
    for (int i = 0; i < MANY; i++)
        many[i].msg_hdr = (struct msghdr){.msg_iov = &one, .msg_iovlen = 1};
    put_return(p + 3 * PAGE + 2000, 5);
    call(p + 3 * PAGE + 2000);
    n = sendmmsg(s[0], many, MANY, 0);
    while (recv(s[1], &byte, 1, 0) > 0)
        received++;
    printf("sendmmsg: %d\n", n > 0 && n == received);
}

static void take_vectors(void)
{
    int fd[2];
    char bytes[300];
    struct iovec from = {bytes, sizeof bytes};
    memset(bytes, 3, sizeof bytes);
    uint8_t *p = run_pages();
    if (pipe(fd) || write(fd[1], bytes, sizeof bytes) < 0)
        return;
    long n = vmsplice(fd[0], three(p), 3, 0);
    tell("vmsplice", n, p + 4 * PAGE + 199);
    p = run_pages();
    n = process_vm_writev(getpid(), &from, 1, three(p), 3, 0);
    tell("process_vm_writev", n, p + 4 * PAGE + 199);
}

/* Calls that have lost what they were to tell, if they cannot write it, or that do a part then. */
int guest_kernel_loses(void)
{
    take_messages();
    take_queued();
    take_datagrams();
    take_vectors();
    return 0;
}

static int event;

static void *read_events(void *to)
{
    long sum = 0;
    uint64_t n;
    for (int i = 0; i < 300; i++) {
        if (read(event, to, sizeof n) != sizeof n)
            break;
        memcpy(&n, to, sizeof n);
        sum += (long)n;
    }
    return (void *)sum;
}

/* A call waits to write beside code that another thread runs meanwhile. */
int guest_kernel_waits(void)
{
    pthread_t thread;
    void *sum;
    uint64_t one = 1;
    uint8_t *p = map_code(1);
    alarm(30);
    put_return(p, 1);
    event = eventfd(0, EFD_SEMAPHORE);
    if (pthread_create(&thread, NULL, read_events, p + 2048))
        return 1;
    for (int i = 0; i < 300; i++) {
        call(p);
        if (write(event, &one, sizeof one) != sizeof one)
            return 1;
        usleep(i % 10 ? 0 : 1000);
        call(p);
    }
    pthread_join(thread, &sum);
    printf("%ld\n", (long)sum);
    return 0;
}

enum { WRITERS = 4, FUNCTIONS = 64, ROUNDS = 400 };
static uint8_t *arena;

static void *call_all(void *page)
{
    long wrong = 0;
    while (!done)
        for (int i = 0; i < FUNCTIONS; i++)
            wrong += call((uint8_t *)page + i * 16) != i;
    return (void *)wrong;
}

static void *write_all(void *page)
{
    for (int r = 0; r < ROUNDS; r++) {
        mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
        for (int i = 0; i < FUNCTIONS; i++)
            ((uint8_t *)page)[i * 16 + 8] ^= 0xff;
        mprotect(page, PAGE, PROT_READ | PROT_EXEC);
    }
    return NULL;
}

/* Threads make pages of one mapping writable, write between functions, and take that back, while others run these. */
int guest_rights_in_threads(void)
{
    pthread_t callers[WRITERS], writers[WRITERS];
    long wrong = 0;
    void *r;
    arena = map_code(WRITERS);
    for (int i = 0; i < WRITERS * FUNCTIONS; i++)
        put_return(arena + i / FUNCTIONS * PAGE + i % FUNCTIONS * 16, i % FUNCTIONS);
    for (int i = 0; i < WRITERS; i++)
        if (pthread_create(&callers[i], NULL, call_all, arena + i * PAGE) || pthread_create(&writers[i], NULL, write_all, arena + i * PAGE))
            return 1;
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    done = 1;
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(callers[i], &r);
        wrong += (long)r;
    }
    printf("%ld\n", wrong);
    return 0;
}

static void *map_and_unmap(void *unused)
{
    while (!done) {
        uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(p, 2 * PAGE);
    }
    return unused;
}

/* Code is where another thread has just unmapped something. */
int guest_reused(void)
{
    enum { MAPPERS = 3 };
    pthread_t mappers[MAPPERS];
    long sum = 0;
    for (int i = 0; i < MAPPERS; i++)
        if (pthread_create(&mappers[i], NULL, map_and_unmap, NULL))
            return 1;
    for (int i = 0; i < 10000; i++) {
        uint8_t *p = map_code(2);
        sum += renew(p, 2, i) + renew(p, 2, i + 1);
        munmap(p, 2 * PAGE);
    }
    done = 1;
    for (int i = 0; i < MAPPERS; i++)
        pthread_join(mappers[i], NULL);
    printf("%ld\n", sum);
    return 0;
}

static volatile uint32_t keys_in_handler;

static uint32_t read_keys(void)
{
    uint32_t lo, hi;
    __asm__ volatile("rdpkru" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static void write_keys(uint32_t keys)
{
    __asm__ volatile("wrpkru" : : "a"(keys), "c"(0), "d"(0) : "memory");
}

static void on_keys(int signo)
{
    (void)signo;
    keys_in_handler = read_keys();
    write_keys(0x55555550);
}

/* Code that may run and not be read, by its rights or by a protection key; and PKRU in handlers. */
int guest_keys(void)
{
    enum { CALLS = 1000 };
    uint8_t *p = map_code(1);
    int key = pkey_alloc(0, 0), sum = 0;
    for (int round = 0; round < 3; round++) {
        put_return(p, round);
        mprotect(p, PAGE, PROT_EXEC);
        for (int i = 0; i < CALLS; i++)
            sum += call(p);
        mprotect(p, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    }
    printf("%d, %d\n", sum, key);
    if (key < 0)
        return 0;
    signal(SIGUSR1, on_keys);
    write_keys(0);
    raise(SIGUSR1);
    printf("%x, %x\n", keys_in_handler, read_keys());
    pkey_mprotect(p, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, key);
    for (uint32_t rights = 2; rights < 4; rights++) {
        write_keys(0x55555554 & ~(3u << 2 * key));
        put_return(p, (int)rights);
        write_keys((0x55555554 & ~(3u << 2 * key)) | rights << 2 * key);
        for (int i = 0; i < CALLS; i++)
            sum += call(p);
    }
    uint8_t *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* its code is compared */
    put_return(shared, 5);
    mprotect(shared, PAGE, PROT_EXEC);
    for (int i = 0; i < CALLS; i++) {
        write_keys(i & 1 ? 0 : 0x55555554);
        sum += call(shared);
    }
    printf("%d\n", sum);
    return 0;
}

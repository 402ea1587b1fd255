/* SPDX-License-Identifier: MIT
 * Guests that limit or lock their memory, of which the runtime's is none. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guests.h"

enum { MB = 1 << 20 };

static void print_limit(const char *what, unsigned resource)
{
    struct rlimit l;
    int r = getrlimit(resource, &l);
    printf("%s: %d, %ju and %ju\n", what, r, (uintmax_t)l.rlim_cur, (uintmax_t)l.rlim_max);
}

/* The old limit comes where the new one is. */
static void limit(const char *what, unsigned resource, uint64_t soft, uint64_t hard)
{
    struct rlimit l = {soft, hard};
    int r = prlimit(resource == RLIMIT_AS ? 0 : getpid(), resource, &l, &l);
    printf("%s: %d, before %ju and %ju\n", what, r, (uintmax_t)l.rlim_cur, (uintmax_t)l.rlim_max);
    print_limit(what, resource);
}

/* How often there is room for a megabyte, all of which is given back. */
static int count(int prot)
{
    static void *at[4096];
    int n = 0;
    while (n < 4096 && (at[n] = mmap(NULL, MB, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) != MAP_FAILED)
        n++;
    for (int i = 0; i < n; i++)
        munmap(at[i], MB);
    return n;
}

/* Code so far from all other that its translation needs memory of its own. */
static int far(uint64_t at)
{
    static const uint8_t code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov eax, 42; ret */
    uint8_t *p = mmap((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    int (*f)(void);
    if (p == MAP_FAILED)
        return errno;
    memcpy(p, code, sizeof code);
    memcpy(&f, &p, sizeof f);
    return f();
}

static void *thread(void *unused) { return unused; }

/* A program that began with limits, or without. */
int guest_limited(void)
{
    print_limit("space at first", RLIMIT_AS);
    printf("room for %d\n", count(PROT_NONE));
    printf("far code %d\n", far(0x500000000000));
    printf("room for %d\n", count(PROT_NONE));
    return 0;
}

/* A soft limit of no data, which the kernel takes for the hard one where memory is mapped. */
static void no_data(void)
{
    limit("no data", RLIMIT_DATA, 0, RLIM_INFINITY);
    printf("room for %d\n", count(PROT_READ | PROT_WRITE));
    printf("heap %d\n", sbrk(MB) == (void *)-1);
    limit("no data", RLIMIT_DATA, 0, 50 * MB);
    printf("room for %d\n", count(PROT_READ | PROT_WRITE));
    limit("no data at all", RLIMIT_DATA, 0, 0);
    printf("room for %d\n", count(PROT_READ | PROT_WRITE));
}

int guest_limits(void)
{
    pthread_t t;
    int status;
    print_limit("space at first", RLIMIT_AS);
    limit("space", RLIMIT_AS, 400 * MB, 500 * MB);
    printf("room for %d\n", count(PROT_NONE));
    printf("far code %d and %d\n", far(0x500000000000), far(0x510000000000));
    printf("room for %d\n", count(PROT_NONE));
    printf("thread %d\n", pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL));
    limit("data", RLIMIT_DATA, 50 * MB, RLIM_INFINITY);
    printf("room for %d and %d\n", count(PROT_READ | PROT_WRITE), count(PROT_READ));
    printf("heap %d\n", sbrk(10 * MB) == (void *)-1);
    printf("heap %d\n", sbrk(100 * MB) == (void *)-1);
    limit("impossible", RLIMIT_AS, 400 * MB, 300 * MB);
    printf("nowhere %d\n", (int)syscall(SYS_setrlimit, RLIMIT_AS, 8));
    fflush(stdout);
    if (!fork()) {
        struct rlimit parent;
        print_limit("child", RLIMIT_AS);
        int r = prlimit(getppid(), RLIMIT_AS, NULL, &parent);
        printf("parent: %d, %ju and %ju\n", r, (uintmax_t)parent.rlim_cur, (uintmax_t)parent.rlim_max);
        limit("child", RLIMIT_AS, RLIM_INFINITY, 500 * MB);
        fflush(stdout);
        execl("/bin/sh", "sh", "-c", "ulimit -v; ulimit -Hv; ulimit -d; expr 1 + 1; ulimit -v 200000; ulimit -v", (char *)0);
    }
    wait(&status);
    printf("status %d\n", status);
    fflush(stdout);
    if (!fork())
        execl("/proc/self/exe", "guests", "limited", (char *)0);
    wait(&status);
    printf("status %d\n", status);
    no_data();
    return 0;
}

static void print_locked(const char *when)
{
    static char line[4096];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t n = read(fd, line, sizeof line - 1);
    line[n > 0 ? n : 0] = 0;
    close(fd);
    const char *at = strstr(line, "VmLck:");
    printf("%s: %.*s\n", when, at ? (int)strcspn(at, "\n") : 0, at ? at : "");
}

static void lock_all(const char *what, int flags)
{
    errno = 0;
    int r = mlockall(flags);
    printf("%s: %d %d\n", what, r, errno);
    print_locked(what);
}

int guest_resident(void)
{
    struct rlimit l;
    lock_all("current", MCL_CURRENT);
    munlockall();
    print_locked("none");
    lock_all("on fault", MCL_CURRENT | MCL_ONFAULT);
    lock_all("future", MCL_FUTURE);
    lock_all("both", MCL_CURRENT | MCL_FUTURE);
    void *p = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    print_locked("one more");
    printf("far code %d\n", far(0x500000000000));
    print_locked("one page more");
    munmap(p, MB);
    lock_all("only current", MCL_CURRENT);
    mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    print_locked("none more");
    munlockall();
    lock_all("unknown", 64);
    lock_all("nothing", 0);
    getrlimit(RLIMIT_MEMLOCK, &l);
    l.rlim_cur = MB;
    printf("limit %d\n", setrlimit(RLIMIT_MEMLOCK, &l));
    printf("user %d\n", getuid() ? 0 : setuid(65534));
    lock_all("too much", MCL_CURRENT);
    l.rlim_cur = l.rlim_max;
    printf("limit %d\n", setrlimit(RLIMIT_MEMLOCK, &l));
    lock_all("enough", MCL_CURRENT | MCL_FUTURE);
    printf("farther code %d\n", far(0x510000000000));
    print_locked("and its page");
    l.rlim_cur = l.rlim_max = 0;
    munlockall();
    printf("limit %d\n", setrlimit(RLIMIT_MEMLOCK, &l));
    lock_all("none allowed", MCL_CURRENT);
    return 0;
}

/* SPDX-License-Identifier: MIT
 * Code on pages that are mapped, unmapped, moved and given rights in any order: what runs is what is there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "code.h"
#include "guests.h"

enum { PAGE = 4096, PAGES = 24, FILE_PAGES = 16, STEPS = 1200, FUNCTION = 64 };

/* What lies on a page, 0: nothing; and whether it can be run. */
struct page {
    uint16_t id;
    bool runs;
};

struct area {
    uint8_t *at;
    struct page page[PAGES];
    uint32_t random, sum;
    unsigned wrong;
    int plain, shared; /* files */
    uint8_t *view;     /* of the shared one */
    uint16_t next;
    bool alone;
};

static __thread sigjmp_buf back;

static void on_fault(int signo)
{
    siglongjmp(back, signo);
}

static unsigned pick(struct area *a, unsigned n)
{
    a->random = a->random * 1664525 + 1013904223;
    return (a->random >> 16) % n;
}

/* A page begins with its id; and a function that returns it. */
static void fill(uint8_t *p, uint16_t id)
{
    memcpy(p, &id, 2);
    put_return(p + FUNCTION, id);
}

static int result_of(const uint8_t *p)
{
    return sigsetjmp(back, 1) ? -1 : call(p);
}

static void run(struct area *a, unsigned i)
{
    const struct page *p = &a->page[i];
    int got = result_of(a->at + i * PAGE + FUNCTION);
    a->wrong += got != (p->runs ? p->id : -1);
    a->sum = a->sum * 31 + (uint32_t)got;
}

static void map(struct area *a, unsigned i, unsigned n, int prot, int flags, int fd, unsigned from)
{
    if (mmap(a->at + i * PAGE, n * PAGE, prot, flags | MAP_FIXED, fd, from * PAGE) == MAP_FAILED)
        a->wrong++;
    for (unsigned k = i; k < i + n; k++)
        a->page[k] = (struct page){0, prot & PROT_EXEC};
}

static void clear(struct area *a, unsigned i, unsigned n)
{
    map(a, i, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void set_rights(struct area *a, unsigned i, unsigned n, int prot)
{
    if (mprotect(a->at + i * PAGE, n * PAGE, prot))
        a->wrong++;
    for (unsigned k = i; k < i + n; k++)
        a->page[k].runs = prot & PROT_EXEC && a->page[k].id;
}

/* Memory of no file, with code, which is made executable at once or then. */
static void map_memory(struct area *a, unsigned i, unsigned n)
{
    bool at_once = pick(a, 2);
    map(a, i, n, PROT_READ | PROT_WRITE | (at_once ? PROT_EXEC : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned k = i; k < i + n; k++) {
        a->page[k].id = a->next++;
        fill(a->at + k * PAGE, a->page[k].id);
    }
    if (!at_once)
        set_rights(a, i, n, PROT_READ | PROT_EXEC);
}

static void map_file(struct area *a, unsigned i, unsigned n, bool shared)
{
    unsigned from = pick(a, FILE_PAGES - n);
    map(a, i, n, PROT_READ | PROT_EXEC, shared ? MAP_SHARED : MAP_PRIVATE, shared ? a->shared : a->plain, from);
    for (unsigned k = 0; k < n; k++)
        memcpy(&a->page[i + k].id, a->at + (i + k) * PAGE, 2);
}

/* Where the shared file is mapped, it may change. */
static void write_shared(struct area *a)
{
    unsigned at = pick(a, FILE_PAGES);
    uint16_t was, is = a->next++;
    memcpy(&was, a->view + at * PAGE, 2);
    fill(a->view + at * PAGE, is);
    for (unsigned k = 0; k < PAGES; k++)
        if (a->page[k].id == was)
            a->page[k].id = is;
}

/* Only whole mappings move; so page after page. */
static void move(struct area *a, unsigned from, unsigned to)
{
    if (from == to)
        return;
    struct page p = a->page[from];
    if (mremap(a->at + from * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, a->at + to * PAGE) == MAP_FAILED)
        a->wrong++;
    if (a->alone)
        a->page[from] = (struct page){0};
    else
        clear(a, from, 1);
    a->page[to] = p;
}

static void unmap(struct area *a, unsigned i, unsigned n)
{
    if (!a->alone) {
        clear(a, i, n);
        return;
    }
    munmap(a->at + i * PAGE, n * PAGE);
    for (unsigned k = i; k < i + n; k++)
        a->page[k] = (struct page){0};
}

static bool all_there(const struct area *a, unsigned i, unsigned n)
{
    for (unsigned k = i; k < i + n; k++)
        if (!a->page[k].id)
            return false;
    return true;
}

static void step(struct area *a)
{
    static const int rights[] = {PROT_READ, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE, PROT_NONE};
    unsigned n = 1 + pick(a, 4), i = pick(a, PAGES - n), what = pick(a, 8), prot = pick(a, 4), to = pick(a, PAGES);
    switch (what) {
    case 0:
    case 1: map_memory(a, i, n); break;
    case 2: map_file(a, i, n, false); break;
    case 3: map_file(a, i, n, true); break;
    case 4: unmap(a, i, n); break;
    case 5: write_shared(a); break;
    case 6:
        if (all_there(a, i, n))
            set_rights(a, i, n, rights[prot]);
        break;
    case 7:
        if (all_there(a, i, 1))
            move(a, i, to);
        break;
    }
}

/* A file of pages with code, which stays. */
static int make_file(uint16_t first)
{
    char name[] = "code-XXXXXX";
    uint8_t page[PAGE];
    int fd = mkstemp(name);
    for (unsigned k = 0; k < FILE_PAGES; k++) {
        memset(page, 0x90, sizeof page);
        fill(page, (uint16_t)(first + k));
        if (write(fd, page, sizeof page) != sizeof page)
            abort();
    }
    return fd;
}

static void *mappings(void *context)
{
    struct area *a = context;
    a->at = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    a->view = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, a->shared, 0);
    for (unsigned k = 0; k < STEPS; k++) {
        step(a);
        for (unsigned r = pick(a, 4); r; r--)
            run(a, pick(a, PAGES));
    }
    return NULL;
}

static void begin(struct area *a, unsigned seed, bool alone)
{
    *a = (struct area){.random = seed, .next = 1000, .alone = alone};
    a->plain = make_file(1);
    a->shared = make_file(1 + FILE_PAGES);
}

int guest_mappings(void)
{
    static struct area areas[3];
    pthread_t thread[2];
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    for (unsigned k = 0; k < 3; k++)
        begin(&areas[k], k + 1, k == 0);
    mappings(&areas[0]);
    for (unsigned k = 0; k < 2; k++)
        pthread_create(&thread[k], NULL, mappings, &areas[k + 1]);
    for (unsigned k = 0; k < 2; k++)
        pthread_join(thread[k], NULL);
    for (unsigned k = 0; k < 3; k++)
        printf("%u wrong, %08x\n", areas[k].wrong, areas[k].sum);
    return 0;
}

/* Code of shared memory, whose pages get rights one after another, and are run before what is new is. */
int guest_rights_in_parts(void)
{
    int fd = memfd_create("code", 0);
    long sum = 0;
    if (ftruncate(fd, 4 * PAGE))
        return 1;
    uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, fd, 0);
    for (int i = 0; i < 4; i++)
        put_return(p + i * PAGE, i + 1);
    for (int i = 0; i < 4; i++)
        sum = sum * 5 + call(p + i * PAGE);
    mprotect(p + PAGE, PAGE, PROT_EXEC);
    for (int i = 0; i < 4; i += 2)
        sum = sum * 5 + call(p + i * PAGE);
    for (int n = 2; n <= 4; n += 2) {
        mprotect(p, n * PAGE, PROT_READ | PROT_EXEC);
        for (int i = 0; i < 4; i++)
            sum = sum * 5 + call(p + i * PAGE);
    }
    printf("%lx\n", sum);
    return 0;
}

/* mremap moves two mappings, the second of which it refuses (it lies under a userfaultfd): the first one has moved all the same, on kernels since 6.17. */
int guest_moved_in_part(void)
{
    enum { DONT_UNMAP = 4 };
    struct sigaction action = {.sa_handler = on_fault};
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), watched = fd >= 0 && !ioctl(fd, UFFDIO_API, &api);
    uint8_t *from = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *to = from + 4 * PAGE;
    sigaction(SIGSEGV, &action, NULL);
    mprotect(from, 8 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (int i = 0; i < 8; i++)
        put_return(from + i * PAGE, 10 + i);
    mprotect(from, 7 * PAGE, PROT_READ | PROT_EXEC);
    printf("%d\n", call(from + 7 * PAGE)); /* this one stays to be written, too */
    struct uffdio_register second = {.range = {(uintptr_t)from + PAGE, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    watched = watched && !ioctl(fd, UFFDIO_REGISTER, &second);
    for (int n = 0; n < 2; n++) {
        printf("%d %d %d\n", result_of(from), result_of(to), result_of(to + PAGE));
        if (n == 0)
            printf("%d: %s\n", watched, syscall(SYS_mremap, from, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | DONT_UNMAP, to) < 0 ? "refused" : "moved");
    }
    return 0;
}

/* The page before where the fast host lies, the one behind it, and calls over all between. */
int guest_over_a_hole(void)
{
    enum { MSEAL = 462 };
    uint8_t *low = (uint8_t *)0x6dfff000, *high = (uint8_t *)0x7d000000;
    size_t all = (size_t)(high - low) + PAGE;
    unsigned char in;
    for (int round = 0; round < 2; round++) {
        bool mapped = mmap(low, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == low &&
                      mmap(high, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == high;
        *low = *high = 1;
        int unmapped = munmap(low, all);
        printf("mapped %d, munmap %d, there %d %d\n", mapped, unmapped, !mincore(low, PAGE, &in), !mincore(high, PAGE, &in));
    }
    mmap(low, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    mmap(high, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    *low = *high = 1;
    int advice = madvise(low, all, MADV_DONTNEED), why = errno;
    printf("madvise %d %d, left %d %d\n", advice, why, *low, *high);
    advice = munmap(low, ((size_t)1 << 47) - (uintptr_t)low);
    printf("past the end: munmap %d %d, there %d\n", advice, errno, !mincore(low, PAGE, &in));
    int zero = open("/dev/zero", O_RDONLY), rights = mprotect(low, all, PROT_READ);
    why = errno;
    printf("mprotect %d %d, writable %d %d\n", rights, why, read(zero, low, 1) == 1, read(zero, high, 1) == 1);
    long sealed = syscall(MSEAL, low, all, 0), unmapped = munmap(low, PAGE) | munmap(high, PAGE);
    printf("mseal %ld, then munmap %ld\n", sealed, unmapped);
    close(zero);
    uint8_t *below = (uint8_t *)(((uintptr_t)guest_over_a_hole & ~(uintptr_t)0x1fffff) - 0x38000000);
    printf("far away: munmap %d, before the program: %d\n", munmap((void *)0x54fffff00000, 0x500000000),
           (uintptr_t)below < 0x550000000000 ? 0 : munmap(below, 0x37000000));
    return 0;
}

/* SPDX-License-Identifier: MIT
 * Code that goes, or changes, without a write to it and without a change of its mapping. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code.h"
#include "guests.h"

enum { PAGE = 4096 };

static sigjmp_buf out;

static void leave(int signo)
{
    siglongjmp(out, signo);
}

static void catch_faults(void)
{
    signal(SIGSEGV, leave);
    signal(SIGBUS, leave);
    signal(SIGILL, leave);
}

/* What the code at p returns, or which signal it ends by, negative. */
static int try(const uint8_t *p)
{
    int signo = sigsetjmp(out, 1);
    return signo ? -signo : call(p);
}

static void try_in_child(const uint8_t *p, uint8_t *write)
{
    fflush(NULL);
    if (!fork()) {
        printf("child: %d\n", try(p));
        if (write) {
            put_return(write, 90);
            printf("child: %d\n", try(p));
        }
        exit(0);
    }
    wait(NULL);
    printf("parent: %d\n", try(p));
}

int guest_advised(void)
{
    enum { GUARD_INSTALL = 102, GUARD_REMOVE };
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    catch_faults();
    for (int i = 0; i < 3; i++) {
        put_return(p, i);
        printf("%d: %d\n", i, try(p));
        madvise(p, 4096, MADV_DONTNEED);
        if (i == 1)
            printf("empty: %d\n", try(p));
    }
    put_return(p, 10);
    printf("%d\n", try(p));
    int guarded = madvise(p, 4096, GUARD_INSTALL); /* from Linux 6.13 on */
    printf("guard: %d %d\n", guarded, try(p));
    if (!guarded)
        madvise(p, 4096, GUARD_REMOVE);
    put_return(p, 11);
    printf("%d\n", try(p));
    madvise(p, 4096, MADV_WIPEONFORK);
    try_in_child(p, p);
    madvise(p, 4096, MADV_KEEPONFORK);
    madvise(p, 4096, MADV_DONTFORK);
    try_in_child(p, NULL);
    madvise(p, 4096, MADV_DOFORK);
    try_in_child(p, p);
    return 0;
}

/* What is advised of memory with a hole is done on both sides, though the call fails; and goes with memory that is moved. */
int guest_advised_beside_holes(void)
{
    enum { PAGES = 3 };
    uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *to = pages(PROT_READ);
    catch_faults();
    munmap(p + PAGE, PAGE);
    for (int i = 0; i < PAGES; i += 2) {
        put_return(p + i * PAGE, 10 + i);
        printf("%d\n", try(p + i * PAGE));
    }
    int failed = madvise(p, PAGES * PAGE, MADV_DONTNEED), error = errno;
    printf("%d %d: %d %d\n", failed, error, try(p), try(p + 2 * PAGE));
    put_return(p, 20);
    printf("%d\n", try(p));
    madvise(p, PAGE, MADV_WIPEONFORK);
    printf("%d\n", mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    put_return(to, 21);
    printf("%d\n", try(to));
    try_in_child(to, to);
    uint8_t *q = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(q + PAGE, PAGE);
    put_return(q, 30);
    printf("%d\n", try(q));
    printf("%d\n", mprotect(q, 2 * PAGE, PROT_READ | PROT_EXEC));
    struct iovec from = {to, 6}, at = {q, 6}; /* it may not be written any more */
    printf("%zd\n", process_vm_writev(getpid(), &from, 1, &at, 1, 0));
    printf("%d\n", try(q));
    return 0;
}

/* Memory that the kernel may take away, and that a child of a fork finds empty. */
int guest_droppable(void)
{
    enum { DROPPABLE = 8 }; /* from Linux 6.11 on */
    uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, DROPPABLE | MAP_ANONYMOUS, -1, 0);
    catch_faults();
    if (p == MAP_FAILED)
        return 1;
    put_return(p, 10);
    printf("%d\n", try(p));
    try_in_child(p, p);
    return 0;
}

/* A page that is writable, and from now on for ever. */
int guest_sealed(void)
{
    enum { NR_mseal = 462 }; /* from Linux 6.10 on */
    catch_faults();
    for (int ran = 0; ran < 3; ran++) {
        uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
        for (int i = 0; i < 100 * ran; i++) { /* which is watched, or written so often that it is not */
            put_return(p, i);
            call(p);
        }
        syscall(NR_mseal, p, 4096, 0);
        int right = 0;
        for (int i = 0; i < 5000; i++) {
            put_return(p, i);
            right += try(p) == i;
        }
        printf("%d %d\n", ran, right);
    }
    return 0;
}

/* The file's end comes nearer; an instruction lies on both sides of it. */
int guest_shrunk(void)
{
    int file = memfd_create("code", 0);
    catch_faults();
    for (int shared = 0; shared < 2; shared++) {
        ftruncate(file, 8192);
        uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, file, 0);
        put_return(p, 1);
        put_return(p + 4093, 2);
        p[4096 + 16] = 0x06; /* no instruction */
        p[4095 - 16] = 0x06;
        if (!shared) {
            munmap(p, 8192);
            p = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        }
        if (shared)
            printf("%d %d %d\n", try(p), try(p + 4093), try(p + 4096 + 16));
        ftruncate(file, 4096);
        printf("%d %d %d %d\n", try(p), try(p + 4093), try(p + 4096), try(p + 4095 - 16));
        ftruncate(file, 0);
        if (shared)
            printf("%d\n", try(p));
        munmap(p, 8192);
    }
    return 0;
}

/* Code behind the break, which comes back to where it was. */
int guest_broken_off(void)
{
    printf("begins\n"); /* which takes memory */
    uint8_t *p = (uint8_t *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095) + 4096;
    int ran[5];
    catch_faults();
    brk(p + 4096);
    mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    put_return(p, 1);
    ran[0] = try(p);
    brk(p);
    ran[1] = try(p);
    brk(p + 4096);
    ran[2] = try(p);
    mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (int i = 0; i < 2; i++) {
        put_return(p, 2 + i);
        ran[3 + i] = try(p);
    }
    brk(p - 4096);
    for (int i = 0; i < 5; i++)
        printf("%d\n", ran[i]);
    return 0;
}

/* Memory of huge pages, if the machine has any to give: no page of it has rights of its own. */
int guest_huge_pages(void)
{
    size_t huge = 2 << 20;
    uint8_t *p = mmap(NULL, huge, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    int right = 0;
    for (int i = 0; p != MAP_FAILED && i < 1000; i++) {
        put_return(p, i);
        put_return(p + huge / 2 - 3, i);
        right += call(p) == i && call(p + huge / 2 - 3) == i;
    }
    printf("%d\n", right);
    return 0;
}

/* A stack with code that grows because the program jumps below it, where it finds zeros: add %al, (%rax). */
int guest_grown(void)
{
    enum { ROOM = 8 << 20, STACK = 4096 };
    static char buffer[256] __attribute__((aligned(256))) = "written";
    uint8_t *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, ROOM);
    uint8_t *top = room + ROOM - STACK, *p = mmap(top, STACK, PROT_READ | PROT_WRITE | PROT_EXEC,
                                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    uint64_t r = (uint64_t)buffer;
    put_return(p, 7);
    __asm__ volatile("call *%1" : "+a"(r) : "r"(p - STACK) : "memory", "cc");
    printf("%s %lu\n", buffer, r);
    return 0;
}

/* A stack of n pages, below which there is room, and nothing behind it. */
static uint8_t *map_stack(unsigned n)
{
    enum { ROOM = 8 << 20 };
    uint8_t *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *top = room + ROOM - (size_t)(n + 1) * PAGE;
    munmap(room, ROOM);
    return mmap(top, (size_t)n * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
}

/* Whether the byte at p can be written: else which signal says no, negative. */
static int try_write(volatile uint8_t *p, uint8_t v)
{
    int signo = sigsetjmp(out, 1);
    if (!signo)
        *p = v;
    return signo ? -signo : *p == v;
}

/* Stacks with code on their lowest pages grow because something is pushed below it; also one whose lowest page has been unmapped. */
int guest_grown_by_writes(void)
{
    uint8_t *p = map_stack(3);
    catch_faults();
    put_return(p + PAGE, 1);
    printf("%d", try(p + PAGE));
    munmap(p, PAGE);
    for (uint8_t *lowest = p + PAGE; lowest > p - 4 * PAGE; lowest -= PAGE) {
        put_return(lowest, 2);
        printf(" %d", try(lowest));
        printf(" %d", try_write(lowest - 8, 3));
    }
    printf("\n");
    return 0;
}

/* mprotect from a page of a stack down to where the stack begins, pages from which code has run among them; the last time it fails, having done that. */
int guest_rights_downwards(void)
{
    static const int rights[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC};
    uint8_t *p = map_stack(4);
    catch_faults();
    for (unsigned i = 0; i < 4; i++)
        put_return(p + i * PAGE, (int)i);
    for (unsigned n = 0; n < 4; n++) {
        for (unsigned i = 0; i < 4; i++)
            printf("%d %d, ", try(p + i * PAGE), try_write(p + i * PAGE, 0xb8));
        printf("%d\n", mprotect(p + 2 * PAGE, (n == 3 ? 1000 : 1) * PAGE, rights[n] | PROT_GROWSDOWN));
    }
    for (unsigned i = 0; i < 4; i++) {
        put_return(p + i * PAGE, (int)i + 10);
        printf(" %d", try(p + i * PAGE));
    }
    printf("\n");
    return 0;
}

/* mprotect ends at a sealed page: what lies before it has other rights. */
int guest_sealed_in_part(void)
{
    enum { NR_mseal = 462, PAGES = 4 };
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    uint8_t *p = mmap(NULL, PAGES * PAGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *code = p + PAGE;
    catch_faults();
    put_return(code, 1);
    syscall(NR_mseal, p + 2 * PAGE, PAGE, 0);
    printf("%d", try(code));
    int r = mprotect(p, PAGES * PAGE, PROT_READ | PROT_EXEC);
    printf(" %d %d", r, r ? errno : 0);
    printf(" %d %d\n", try_write(code, 0xb8), try(code));
    return 0;
}

/* A userfaultfd moves pages with code elsewhere. */
int guest_pages_moved(void)
{
    struct { uint64_t to, from, bytes, mode, moved; } move = {.bytes = PAGE};
    enum { MOVE = 0xc028aa05 }; /* UFFDIO_MOVE, from Linux 6.8 on; Debian 12 has no name for it, Debian 13 has */
    struct uffdio_api api = {.api = UFFD_API};
    uint8_t *from = pages(PROT_READ | PROT_WRITE | PROT_EXEC), *to = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    struct uffdio_register all = {.range = {(uintptr_t)to, 8192}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, 1); /* UFFD_USER_MODE_ONLY */
    catch_faults();
    put_return(from, 1);
    printf("%d", try(from));
    move.from = (uintptr_t)from, move.to = (uintptr_t)to;
    bool moved = fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &all) && !ioctl(fd, (unsigned)MOVE, &move);
    printf(" %d %d", moved, *from);
    if (moved)
        printf(" %d", try(to));
    put_return(from, 2);
    printf(" %d\n", try(from));
    return 0;
}

/* mov $immediate, %eax whose last two bytes are on the next page, and the return. */
enum { HERE = 3, NOPS = 40 };

static void put_across(uint8_t *end, uint8_t *next)
{
    memcpy(end - HERE, "\xb8\1\2", HERE);
    memcpy(next, "\3\4\xc3", 3);
}

/* Begun with it, or with NOPs before it. */
static void show_across(const uint8_t *end, uint8_t *next, size_t nops)
{
    for (uint8_t i = 0; i < 3; i++) {
        printf(" %x", try(end - HERE - nops));
        next[0] = (uint8_t)(16 + i);
    }
    printf(" %x\n", try(end - HERE - nops));
}

static void take_next(uint8_t *end)
{
    munmap(end, PAGE);
    printf("%d,", try(end - HERE));
}

/* An instruction ends in a mapping that is written to, and comes when it has faulted: memory that can be run because it can be read, a segment,
 * a private file; or is there, behind code that may not be written. */
int guest_across_mappings(void)
{
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC, segment = shmget(IPC_PRIVATE, PAGE, 0700);
    int file = memfd_create("across", 0), old = personality(0xffffffff);
    uint8_t *attached = shmat(segment, NULL, 0);
    catch_faults();
    for (unsigned kind = 0; kind < 4; kind++) {
        uint8_t *p = pages(all), *end = p + PAGE, *next = end;
        memcpy(end - HERE, "\xb8\1\2", HERE);
        memset(end - HERE - NOPS, 0x90, NOPS);
        if (kind != 2)
            take_next(end);
        switch (kind) {
        case 0:
            personality((unsigned)old | READ_IMPLIES_EXEC);
            mmap(end, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            personality((unsigned)old);
            break;
        case 1:
            next = attached;
            shmat(segment, end, SHM_EXEC | SHM_RDONLY);
            break;
        case 2:
            put_across(end, next);
            mprotect(p, PAGE, PROT_READ | PROT_EXEC);
            break;
        case 3:
            printf("%d,", ftruncate(file, PAGE));
            mmap(end, PAGE, all, MAP_PRIVATE | MAP_FIXED, file, 0);
            break;
        }
        if (kind != 2)
            put_across(end, next);
        show_across(end, next, NOPS);
        show_across(end, next, 0);
    }
    shmctl(segment, IPC_RMID, NULL);
    return 0;
}

/* … in one of which another part has gone since it was read. */
int guest_across_cut(void)
{
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    uint8_t *p = mmap(NULL, 4 * PAGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = p + PAGE;
    int file = memfd_create("cut", 0);
    catch_faults();
    printf("%d\n", ftruncate(file, 3 * PAGE));
    mmap(end, 3 * PAGE, all, MAP_PRIVATE | MAP_FIXED, file, 0);
    put_return(p, 1);
    put_return(end + PAGE, 2);
    printf("%d %d\n", try(p), try(end + PAGE));
    munmap(end + 2 * PAGE, PAGE);
    put_across(end, end);
    show_across(end, end, 0);
    return 0;
}

/* Memory that can be run because it can be read, and what cannot when that has ended. */
int guest_rights_implied(void)
{
    int old = personality(0xffffffff);
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    catch_faults();
    put_return(p, 1);
    printf("%d", try(p));
    for (int i = 0; i < 4; i++) {
        personality(i & 1 ? (unsigned)old : (unsigned)old | READ_IMPLIES_EXEC);
        mprotect(p, PAGE, PROT_READ | (i & 2 ? PROT_WRITE : 0));
        printf(" %d %d", try_write(p, 0xb8), try(p));
    }
    printf("\n");
    return 0;
}

/* Code at the end of one stack; another one, two pages behind it, does not grow because code is looked at. */
int guest_grown_by_none(void)
{
    uint8_t *p = map_stack(4), *end = p + PAGE;
    catch_faults();
    munmap(end, 2 * PAGE);
    put_return(end - 6, 1);
    for (int i = 0; i < 3; i++) {
        end[-5] = (uint8_t)i;
        printf("%d ", try(end - 6));
    }
    printf("%d\n", msync(end, PAGE, MS_ASYNC));
    return 0;
}

/* mmap of a socket fails, and of a huge page where there is none: where code has run, which is gone then, and so are pages that were watched. */
int guest_mapped_in_vain(void)
{
    enum { HUGE = 2 << 20 };
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint8_t *room = mmap(NULL, 2 * HUGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p = (uint8_t *)(((uintptr_t)room + HUGE - 1) & -(uintptr_t)HUGE);
    catch_faults();
    for (int huge = 0; huge < 2; huge++) {
        uint8_t *code = p + (huge ? 3 : 1) * PAGE;
        put_return(code, 1);
        put_return(p + HUGE - PAGE, 2);
        printf("%d %d", try(code), try(p + HUGE - PAGE));
        void *r = huge ? mmap(p, PAGE, all, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) : mmap(p, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
        printf(" %d %d", r == MAP_FAILED, try(code));
        if (r == MAP_FAILED)
            mmap(code, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        printf(" %d %d\n", try_write(code, 0xb8), try(code));
    }
    return 0;
}

/* INT1 at the end of a page; what lies behind it goes. */
int guest_trap_beside_hole(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    catch_faults();
    signal(SIGTRAP, leave);
    p[PAGE - 1] = 0xf1;
    printf("%d", try(p + PAGE - 1));
    munmap(p + PAGE, PAGE);
    printf(" %d\n", try(p + PAGE - 1));
    return 0;
}

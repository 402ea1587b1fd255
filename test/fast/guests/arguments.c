/* SPDX-License-Identifier: MIT
 * Calls with arguments by chance, most of them bad: the kernel's results. First those that the runtime makes itself or looks into. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guests.h"

enum { PAGE = 4096, PAGES = 8, BEHIND = 4, DRAWS = 400 };

static uint64_t chance = 88172645463325252u;
static char *room; /* PAGES, of which the third can be read only, the fourth not at all, nor those behind */

static unsigned below(unsigned n)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (unsigned)((chance >> 32) % n);
}

static void lay_out(void)
{
    if (mmap(room, (PAGES + BEHIND) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    mprotect(room, PAGES * PAGE, PROT_READ | PROT_WRITE);
    mprotect(room + 2 * PAGE, PAGE, PROT_READ);
    mprotect(room + 3 * PAGE, PAGE, PROT_NONE);
}

/* ---- what arguments are drawn from ---- */

static uint64_t pointer(void)
{
    switch (below(11)) {
    case 0: return 0;
    case 1: return 8;
    case 2: return UINT64_MAX;
    case 3: return UINT64_C(0x800000000000);
    case 4: return UINT64_C(0xffffffff81000000);
    case 5: return (uint64_t)room + 2 * PAGE;
    case 6: return (uint64_t)room + 3 * PAGE;
    case 7: return (uint64_t)room + 2 * PAGE - 4 * below(9); /* from what can be written into what cannot */
    case 8: return (uint64_t)room + PAGES * PAGE - 4 * below(9);
    default: return (uint64_t)room + 8 * below(PAGE / 8);
    }
}

/* Not the first page, which root may map. */
static uint64_t place(void)
{
    uint64_t other = pointer();
    return below(6) || other < PAGE ? (uint64_t)room + PAGE * below(PAGES) + (below(8) ? 0 : 16) : other;
}

static uint64_t length(void)
{
    static const uint64_t some[] = {0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE, UINT64_MAX}; /* not half of all: mprotect would do some */
    return some[below(below(4) ? 7 : 8)];
}

static uint64_t number(void)
{
    static const uint64_t some[] = {0,  1,  2,  3,  4,  7,  8,          9,                     10,                            11,
                                    16, 19, 34, 63, 64, 65, UINT64_MAX, UINT64_C(0x10000000a), UINT64_C(0xffffffff00000008), INT64_MAX};
    return some[below(20)];
}

static uint64_t set_size(void) { return below(8) ? 8 : number(); }

/* A struct of each kind stands at room + PAGE: one that is good is as likely as one that is not. */
static uint64_t structure(void) { return below(2) ? (uint64_t)room + PAGE : pointer(); }

static void put(size_t at, uint64_t value) { memcpy(room + PAGE + at, &value, sizeof value); }

/* ---- the calls ---- */

struct drawn {
    const char *name;
    long nr;
    uint64_t a[6];
};

static void draw_sigaction(struct drawn *d)
{
    put(0, below(3) ? 0x1234 : below(2)); /* a handler that never runs */
    put(8, number());
    put(24, number());
    *d = (struct drawn){"rt_sigaction", SYS_rt_sigaction, {below(3) ? SIGUSR1 + below(2) : number(), structure(), pointer(), set_size()}};
}

static void draw_sigprocmask(struct drawn *d)
{
    put(0, number() & ~(UINT64_C(1) << (SIGALRM - 1)));
    *d = (struct drawn){"rt_sigprocmask", SYS_rt_sigprocmask, {below(4) ? below(3) : number(), structure(), pointer(), set_size()}};
}

static void draw_sigaltstack(struct drawn *d)
{
    static const uint64_t flags[] = {0, 1, 2, 3, UINT64_C(0x80000000), UINT64_C(0x80000001), UINT64_C(0x80000002), 4};
    put(0, 0x10000000);
    put(8, flags[below(8)]);
    put(16, below(2) ? 4 * PAGE : number());
    *d = (struct drawn){"sigaltstack", SYS_sigaltstack, {structure(), pointer()}};
}

static void draw_sigpending(struct drawn *d) { *d = (struct drawn){"rt_sigpending", SYS_rt_sigpending, {pointer(), number()}}; }

/* It never waits for more than a millisecond. */
static void draw_sigtimedwait(struct drawn *d)
{
    uint64_t good = (uint64_t)room + PAGE, bad = good + 64, set = good + 512;
    put(0, 0);
    put(8, below(2) ? 1000000 : number());
    put(64, below(2) ? UINT64_MAX : 0);
    put(72, UINT64_MAX);
    put(512, number());
    *d = (struct drawn){"rt_sigtimedwait", SYS_rt_sigtimedwait,
                        {below(2) ? set : pointer(), pointer(), below(3) ? good : below(2) ? bad : 8, set_size()}};
}

static void draw_limit(struct drawn *d)
{
    static const uint64_t which[] = {RLIMIT_STACK, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_SIGPENDING};
    struct rlimit now;
    uint64_t one = below(4) ? which[below(6)] : number(), set = structure();
    if (set - (uint64_t)room < PAGES * PAGE && set != (uint64_t)room + PAGE)
        set = 8; /* limits of 0 would end this */
    if (!getrlimit((int)one, &now))
        memcpy(room + PAGE, &now, sizeof now);
    if (!below(4))
        put(0, UINT64_MAX);
    switch (below(3)) {
    case 0: *d = (struct drawn){"getrlimit", SYS_getrlimit, {one, pointer()}}; break;
    case 1: *d = (struct drawn){"setrlimit", SYS_setrlimit, {one, set}}; break;
    default: *d = (struct drawn){"prlimit64", SYS_prlimit64, {below(3) ? 0 : UINT64_MAX, one, set, pointer()}};
    }
}

static uint64_t protection(void) { return below(6) ? below(8) : number(); }

static void draw_mapping(struct drawn *d)
{
    static const uint64_t kinds[] = {MAP_PRIVATE, MAP_SHARED, 0, MAP_PRIVATE | MAP_NORESERVE, 3, MAP_PRIVATE | MAP_GROWSDOWN};
    uint64_t flags = below(2) ? MREMAP_MAYMOVE | MREMAP_FIXED : number();
    switch (below(6)) {
    case 0:
        flags = kinds[below(6)] | (below(3) ? MAP_ANONYMOUS : 0) | (below(3) ? MAP_FIXED : MAP_FIXED_NOREPLACE);
        *d = (struct drawn){"mmap", SYS_mmap,
                            {place(), length(), protection(), flags, below(3) ? UINT64_MAX : number(), below(3) ? 0 : number()}};
        break;
    case 1: *d = (struct drawn){"munmap", SYS_munmap, {place(), length()}}; break;
    case 2: *d = (struct drawn){"mprotect", SYS_mprotect, {place(), length(), protection()}}; break;
    case 3: *d = (struct drawn){"pkey_mprotect", SYS_pkey_mprotect, {place(), length(), protection(), below(2) ? UINT64_MAX : number()}}; break;
    case 4: *d = (struct drawn){"mremap", SYS_mremap, {place(), length(), length(), flags, place()}}; break;
    default: *d = (struct drawn){"madvise", SYS_madvise, {place(), length(), below(2) ? below(25) : number()}};
    }
}

static void draw_other(struct drawn *d)
{
    static const uint64_t asked[] = {0x1004, 0x1011, 0x1021, 0x1022, 0x3001}; /* ARCH_GET_GS, _GET_CPUID, _GET_XCOMP_SUPP, _GET_XCOMP_PERM; none */
    static const uint64_t alone[] = {0x10000, 0x800}; /* CLONE_THREAD, CLONE_SIGHAND: not without others */
    uint64_t size = number();
    strcpy(room + PAGE, "/none/such");
    switch (below(9)) {
    case 0: *d = (struct drawn){"execve", SYS_execve, {structure(), pointer(), pointer()}}; break;
    case 1: *d = (struct drawn){"execveat", SYS_execveat, {number(), structure(), pointer(), pointer(), number()}}; break;
    case 2: *d = (struct drawn){"open", SYS_open, {pointer(), 0, 0}}; break;
    case 3: *d = (struct drawn){"write", SYS_write, {below(2) ? 77 : UINT64_MAX, pointer(), length()}}; break;
    case 4: *d = (struct drawn){"rseq", 334, {pointer(), below(2) ? 32 : number(), number(), number()}}; break;
    case 5: *d = (struct drawn){"arch_prctl", SYS_arch_prctl, {asked[below(5)], pointer()}}; break;
    case 6: *d = (struct drawn){"clone3", 435, {pointer(), size >= 64 && size < PAGE ? 63 : size}}; break; /* a whole one would be a fork */
    case 7: *d = (struct drawn){"prctl", SYS_prctl, {below(2) ? 21 + below(2) * 4 : 15 + below(2), pointer(), number(), number(), number()}}; break;
    default: *d = (struct drawn){"clone", SYS_clone, {alone[below(2)], pointer(), pointer(), pointer(), pointer()}};
    }
}

static void (*const draws[])(struct drawn *) = {draw_sigaction, draw_sigprocmask, draw_sigaltstack, draw_sigpending, draw_sigtimedwait,
                                                draw_limit,     draw_mapping,     draw_mapping,     draw_mapping,    draw_other};

/* Where pages lie is the kernel's choice. */
static void show(unsigned n, const struct drawn *d, long r)
{
    bool inside = (uint64_t)r - (uint64_t)room < PAGES * PAGE, page = (uint64_t)r >> 12 && (uint64_t)r < UINT64_MAX - PAGE;
    printf("%u %s", n, d->name);
    for (int i = 0; i < 6; i++) {
        if (d->a[i] - (uint64_t)room <= PAGES * PAGE)
            printf(" room+%lx", d->a[i] - (uint64_t)room);
        else
            printf(" %lx", d->a[i]);
    }
    printf(inside ? ": room+%lx\n" : page ? ": elsewhere\n" : ": %ld\n", inside ? r - (long)room : r);
}

static uint64_t sum_of(const char *p, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)p[i];
    return sum;
}

static bool begin(void)
{
    room = mmap(NULL, (PAGES + BEHIND) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED;
}

static void call(unsigned n, const struct drawn *d)
{
    long r = syscall(d->nr, d->a[0], d->a[1], d->a[2], d->a[3], d->a[4], d->a[5]);
    show(n, d, r == -1 ? -(long)errno : r);
    sigprocmask(SIG_SETMASK, &(sigset_t){0}, NULL);
}

int guest_arguments(void)
{
    if (!begin())
        return 1;
    for (unsigned n = 0; n < DRAWS * sizeof draws / sizeof draws[0]; n++) {
        struct drawn d;
        lay_out();
        draws[n % (sizeof draws / sizeof draws[0])](&d);
        call(n, &d);
        if (draws[n % (sizeof draws / sizeof draws[0])] != draw_mapping)
            printf("%lx\n", sum_of(room, 2 * PAGE));
    }
    return 0;
}

/* ---- calls that are the kernel's ----
 * A letter an argument: p a pointer, b one that is bad for all, s a structure, v iovecs, t a time of a millisecond at most, or a bad pointer,
 * a a place for mappings, l a length, n a number, z a set's size, c a count of none or too many, 0 and 1 themselves, o one of them, - no
 * descriptor, F a file to read, W one to write, S a socket, E an epoll, d MSG_DONTWAIT. None waits longer, and none changes what outlives it. */

#define PASSED(X)                                                                                                                                  \
    X(rt_sigsuspend, "bz") X(ppoll, "sctpz") X(poll, "sc0") X(pselect6, "npppts") X(epoll_pwait, "Epn0pz") X(epoll_ctl, "E-np") X(signalfd, "-sz") \
    X(signalfd4, "-szn") X(futex, "sont") X(nanosleep, "tp") X(clock_nanosleep, "o0tp") X(wait4, "np1p") X(waitid, "nnpnp") X(kill, "-0")         \
    X(tgkill, "--0") X(tkill, "-0") X(rt_sigqueueinfo, "--s") X(rt_tgsigqueueinfo, "---s") X(timer_gettime, "-p") X(getitimer, "np")               \
    X(mlock, "al") X(munlock, "al") X(mlock2, "aln") X(msync, "aln") X(mincore, "alp") X(read, "Fpl") X(readv, "Fvn") X(pread64, "Fpln")           \
    X(preadv, "Fvnnn") X(write, "Wp1") X(writev, "Wvo") X(pwrite64, "Wp1o") X(pwritev2, "Wvoonn") X(recvfrom, "Spldpp") X(sendto, "Sp1npn")        \
    X(recvmsg, "Ssd") X(getsockopt, "Snnpp") X(ioctl, "F1p") X(statx, "-pnnp") X(newfstatat, "-ppn") X(fstat, "Fp") X(getcwd, "pl")                \
    X(readlink, "ppn") X(getdents64, "Fpl") X(uname, "p") X(capget, "pp") X(getgroups, "np") X(sched_getaffinity, "0lp") X(sched_getparam, "0p")   \
    X(sched_getattr, "0pnn") X(get_robust_list, "-pp") X(pipe2, "bn") X(dup3, "--0") X(openat, "-pz") X(process_vm_readv, "-vnvnn")                \
    X(membarrier, "0nn") X(io_uring_enter, "-nnnpn") X(io_pgetevents, "-nnpts") X(shmat, "-an") X(shmdt, "b") X(remap_file_pages, "alnnn")         \
    X(pkey_alloc, "1n") X(modify_ldt, "0pn") X(fcntl, "Foo") X(select, "0pppb") X(getrandom, "bnn") X(copy_file_range, "-p-pnn")                    \
    X(sendfile, "--pn") X(splice, "-p-pnn") X(vmsplice, "-vnn") X(tee, "--nn")

static const struct {
    const char *name;
    long nr;
    const char *letters;
} passed[] = {
#define X(name, letters) {#name, SYS_##name, letters},
    PASSED(X)
#undef X
};

static int file, memory, socket_end, epoll;

static uint64_t bad(void)
{
    static const uint64_t some[] = {8, UINT64_MAX, UINT64_C(0x800000000000), UINT64_C(0xffffffff81000000)};
    return some[below(4)];
}

static uint64_t argument(char letter)
{
    switch (letter) {
    case 'p': return pointer();
    case 'b': return bad();
    case 's': return structure();
    case 'v': return below(2) ? (uint64_t)room + PAGE + 2048 : pointer();
    case 't': return below(2) ? (uint64_t)room + PAGE + 1024 : bad();
    case 'a': return place();
    case 'l': return length();
    case 'n': return number();
    case 'z': return set_size();
    case 'c': return below(2) ? 0 : UINT64_MAX;
    case '1': return 1;
    case 'o': return below(2);
    case '-': return below(2) ? UINT64_MAX : 777777;
    case 'F': return (uint64_t)file;
    case 'W': return (uint64_t)memory;
    case 'S': return (uint64_t)socket_end;
    case 'E': return (uint64_t)epoll;
    case 'd': return MSG_DONTWAIT;
    default: return 0;
    }
}

static void fill(void)
{
    for (size_t at = 0; at < 1024; at += 8)
        put(at, number());
    put(1024, 0);
    put(1032, below(3) ? below(1000000) : UINT64_MAX);
    for (size_t at = 2048; at < 2048 + 160; at += 16) {
        put(at, pointer());
        put(at + 8, below(100));
    }
}

int guest_arguments_passed(void)
{
    int ends[2];
    file = open("/proc/version", O_RDONLY);
    memory = memfd_create("memory", 0);
    epoll = epoll_create1(0);
    if (!begin() || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return 1;
    socket_end = ends[0];
    for (unsigned n = 0; n < 4000; n++) {
        unsigned k = below(sizeof passed / sizeof passed[0]);
        struct drawn d = {passed[k].name, passed[k].nr, {0}};
        lay_out();
        fill();
        for (int i = 0; passed[k].letters[i]; i++)
            d.a[i] = argument(passed[k].letters[i]);
        call(n, &d);
    }
    return 0;
}

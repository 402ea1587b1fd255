/* SPDX-License-Identifier: MIT
 * The guest's system calls: most go to the kernel as they are; those that touch what the runtime keeps do not. */
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

enum { SHADOW_STACK_ENABLE = 0x5001, SHADOW_STACK_DISABLE = 0x5002 }; /* ARCH_SHSTK_…, which older headers lack */
enum { NR_rseq = 334, NR_clone3 = 435, NR_openat2 = 437, NR_faccessat2 = 439, NR_mseal = 462 };

/* Whether the call has failed for want of a page that we watch, perhaps: not mremap, which says so of a
 * hole, and has moved what lies before it. */
static bool failed_by_us(const struct thread *t, long r, uint64_t releases)
{
    return r == -EFAULT && (rt.protected_pages || rt.releases != releases) && t->sysno != SYS_mremap &&
           !targets_known(t);
}

/* Through to the kernel; SYS_PENDING when a signal is to be delivered first. */
static long pass(struct thread *t)
{
    uint64_t releases = __atomic_load_n(&rt.releases, __ATOMIC_ACQUIRE);
    if (rt_guest_syscall(t))
        return SYS_PENDING;
    long r = (long)t->regs[RAX];
    if (failed_by_us(t, r, releases)) {
        rt_lock();
        pages_release_all();
        rt_unlock();
        t->regs[RAX] = t->sysno;
        if (rt_guest_syscall(t))
            return SYS_PENDING;
        r = (long)t->regs[RAX];
    }
    return r;
}

/* A call that changes mappings. */
struct begun {
    uint64_t since;  /* TSC */
    uint64_t rights; /* changes of our own there had been by then */
};

static void changed(uint64_t start, uint64_t bytes, enum change what, uint64_t since)
{
    rt_lock();
    maps_changed(start, end_of(start, bytes), what, since);
    rt_unlock();
}

/* Calls that change mappings, of all threads: those that have begun, and of these those that are over. */
static uint32_t changes_begun, changes_over;

/* The guest's call has given [start, end) rights, where no page is watched from here on. If there were
 * changes of our own since it began (`before`: how many there had been), they may have come after it: so
 * it is to be the last. The lock is held. */
static void have_rights(const struct thread *t, uint64_t start, uint64_t end, uint64_t before)
{
    bool ours_may_be_later = rt.rights_set != before && !t->filtered;
    if (ours_may_be_later && t->sysno == SYS_pkey_mprotect) /* mprotect gives what is only to be executed another key */
        sys(SYS_pkey_mprotect, start, end - start, t->regs[RDX], t->regs[R10], 0, 0);
    else if (ours_may_be_later)
        sys(SYS_mprotect, start, end - start, t->regs[RDX], 0, 0, 0);
    pages_forget(start, end);
}

/* Whether mmap and mprotect give the right to run what is there, perhaps: what can be read can be run,
 * too, under setarch -X. */
static bool gives_code(const struct thread *t)
{
    return t->regs[RDX] & (rt.runs_readable ? PROT_EXEC | PROT_READ : PROT_EXEC);
}

/* Where the rights begin that mprotect gives: with PROT_GROWSDOWN, where the mapping does. The lock is held. */
static uint64_t rights_start(const struct thread *t)
{
    uint64_t start = t->regs[RDI];
    return t->regs[RDX] & PROT_GROWSDOWN && !t->filtered ? mapping_start(start) : start;
}

/* mprotect has given these rights. It is the `number`th change. */
static void set_rights(const struct thread *t, bool alone, uint32_t number, const struct begun *b)
{
    rt_lock();
    uint64_t start = rights_start(t), end = end_of(t->regs[RDI], t->regs[RSI]);
    have_rights(t, start, end, b->rights);
    alone &= __atomic_load_n(&changes_begun, __ATOMIC_ACQUIRE) == number;
    maps_rights(start, end, t->regs[RDX], alone && !rt.runs_readable, b->since);
    if (rt.runs_readable && gives_code(t))
        maps_made_executable(start, end, b->since);
    rt_unlock();
}

/* … or has failed, perhaps in the middle: behind what it has done lies a hole, a file that may not be
 * written, or sealed memory. Of a page that is watched nobody knows whether the kernel has come there:
 * so none is, and it fails again. */
static long fail_anew(struct thread *t, long r)
{
    if (!rt.protected_pages || (r != -ENOMEM && r != -EACCES && r != -EPERM))
        return r;
    pages_release(t->regs[RDI], end_of(t->regs[RDI], t->regs[RSI]));
    t->regs[RAX] = t->sysno;
    return pass(t);
}

/* … and fails for good: which rights [start, end) has now, only the mappings tell. */
static void fail_rights(const struct thread *t, const struct begun *b)
{
    rt_lock();
    uint64_t start = rights_start(t), end = end_of(t->regs[RDI], t->regs[RSI]);
    cache_invalidate(start, end);
    maps_stale(start, end, b->since);
    rt_unlock();
}

/* Of the segment that the call has attached at an address; all behind it, where the kernel does not say
 * or a filter that nobody knows may forbid to ask. */
static uint64_t attached_bytes(const struct thread *t, uint64_t at)
{
    struct shmid_ds s;
    return t->filtered || sys(SYS_shmctl, t->regs[RDI], IPC_STAT, (uint64_t)&s, 0, 0, 0) ? (1ul << 47) - at
                                                                                         : s.shm_segsz;
}

/* How much mmap maps, or unmaps where it fails: whole huge pages, of two megabytes where the call does
 * not say which. */
static uint64_t mapped_bytes(const struct thread *t)
{
    enum { SIZE_SHIFT = 26, USUAL = 21 };
    uint64_t flags = t->regs[R10], shift = flags >> SIZE_SHIFT & 63, page = 1ul << (shift ? shift : USUAL);
    return flags & MAP_HUGETLB ? (t->regs[RSI] + page - 1) & -page : t->regs[RSI];
}

/* mmap has returned r. */
static void take_mapping(const struct thread *t, uint64_t r, const struct begun *b)
{
    uint64_t end = end_of(r, mapped_bytes(t));
    rt_lock();
    if (t->regs[R10] & MAP_FIXED)
        have_rights(t, r, end, b->rights);
    maps_changed(r, end, CHANGE_MAPPING, b->since);
    if (gives_code(t))
        maps_stale(r, end, b->since);
    rt_unlock();
}

/* shmat has returned r: code before it may go on in it. */
static void take_attached(const struct thread *t, uint64_t r, const struct begun *b)
{
    uint64_t end = end_of(r, attached_bytes(t, r));
    rt_lock();
    maps_changed(r, end, CHANGE_MAPPING, b->since);
    maps_stale(r, end, b->since);
    rt_unlock();
}

/* mremap has moved `before` bytes at `from`. */
static void take_moved(uint64_t from, uint64_t before, uint64_t to, uint64_t bytes, const struct begun *b)
{
    rt_lock();
    maps_changed(from, end_of(from, before), CHANGE_BYTES, b->since);
    maps_changed(to, end_of(to, bytes), CHANGE_BYTES, b->since);
    maps_stale(from, end_of(from, before), b->since);
    maps_stale(to, end_of(to, bytes), b->since);
    advice_moved(from, end_of(from, before), to, end_of(to, bytes));
    rt_unlock();
}

/* shmdt: nobody says how much. Code of shared memory is compared at each entry. */
static void take_detached(uint64_t at, const struct begun *b)
{
    rt_lock();
    maps_changed(at, at + 1, CHANGE_MAPPING, b->since);
    maps_stale(at, 1ul << 47, b->since);
    rt_unlock();
}

/* What changes in the code by a call, which has returned r. */
static void take_change(struct thread *t, long r, const struct begun *b)
{
    uint64_t a = t->regs[RDI], n = t->regs[RSI];
    switch (t->sysno) {
    case SYS_mmap:
        take_mapping(t, (uint64_t)r, b);
        advice_mapped(t, (uint64_t)r);
        break;
    case SYS_mremap: take_moved(a, n, (uint64_t)r, t->regs[RDX], b); break;
    case SYS_munmap: changed(a, n, CHANGE_MAPPING, b->since); break;
    case SYS_shmat: take_attached(t, (uint64_t)r, b); break;
    case SYS_shmdt: take_detached(a, b); break;
    default: break;
    }
}

static bool gives_rights(const struct thread *t) { return t->sysno == SYS_mprotect || t->sysno == SYS_pkey_mprotect; }

/* mmap has failed. What there was where it was to map is gone, perhaps: the kernel unmaps it before it
 * asks a file's driver, a socket for one. */
static void fail_mapping(uint64_t start, uint64_t bytes, const struct begun *b)
{
    rt_lock();
    maps_changed(start, end_of(start, bytes), CHANGE_BYTES, b->since);
    maps_stale(start, end_of(start, bytes), b->since);
    rt_unlock();
}

/* The call has returned an error, r, perhaps in the middle: mremap has moved the mappings before the one
 * that it cannot move. */
static void take_failure(const struct thread *t, long r, const struct begun *b)
{
    const uint64_t *a = t->regs;
    if (gives_rights(t))
        fail_rights(t, b);
    else if (t->sysno == SYS_mmap && a[R10] & MAP_FIXED)
        fail_mapping(a[RDI], mapped_bytes(t), b);
    else if (t->sysno == SYS_mremap && r != -EINVAL && a[R10] & MREMAP_FIXED)
        take_moved(a[RDI], a[RSI], a[R8], a[RDX], b);
}

/* Before the call: no page is watched that it unmaps, or takes elsewhere with its rights. Not behind it,
 * for another thread may have got the addresses by then. */
static void release_unmapped(const struct thread *t)
{
    enum { REMAP = 040000 };
    const uint64_t *r = t->regs;
    switch (t->sysno) {
    case SYS_mmap:
        if (r[R10] & MAP_FIXED)
            pages_release(r[RDI], end_of(r[RDI], mapped_bytes(t)));
        break;
    case SYS_mremap:
        if (r[R10] & MREMAP_FIXED)
            pages_release(r[R8], end_of(r[R8], r[RDX]));
        pages_release(r[RDI], end_of(r[RDI], r[RSI]) + PAGE);
        break;
    /* what may grow down now, with the rights of its first page, too */
    case SYS_munmap: pages_release(r[RDI], end_of(r[RDI], r[RSI]) + PAGE); break;
    case SYS_mprotect:
    case SYS_pkey_mprotect:
        if (r[RDX] & PROT_GROWSDOWN) /* a page that is watched is a mapping of its own, and what lies
                                      * below it would keep its rights */
            pages_release(0, r[RDI]);
        break;
    case SYS_shmat:
        if (r[RDX] & REMAP)
            pages_release(r[RSI], r[RSI] + attached_bytes(t, r[RSI]));
        break;
    default: break;
    }
}

/* Calls that change mappings: forget what was translated from them. */
static long do_mapping(struct thread *t)
{
    if (rt.protected_pages)
        release_unmapped(t);
    bool rights = gives_rights(t);
    uint32_t over = __atomic_load_n(&changes_over, __ATOMIC_ACQUIRE),
             number = __atomic_add_fetch(&changes_begun, 1, __ATOMIC_ACQ_REL);
    /* Code that appears is there from before the call on, for whoever decodes a thread that lags in time. */
    struct begun b = {rdtsc(), __atomic_load_n(&rt.rights_set, __ATOMIC_ACQUIRE)};
    long r = pass(t);
    if (rights && r < 0 && r != SYS_PENDING)
        r = fail_anew(t, r);
    if (rights && r >= 0)
        set_rights(t, over + 1 == number, number, &b);
    else if (r >= 0)
        take_change(t, r, &b);
    else if (r != SYS_PENDING)
        take_failure(t, r, &b);
    __atomic_add_fetch(&changes_over, 1, __ATOMIC_ACQ_REL);
    return r;
}

static void grown(uint64_t start, uint64_t end, uint64_t since)
{
    rt_lock();
    maps_stale(start, end, since);
    rt_unlock();
}

/* What the break leaves behind it is unmapped. What it takes has no code, but under setarch -X. */
static long do_break(struct thread *t)
{
    static long last;
    long before = last > 0 ? last : sys(SYS_brk, 0, 0, 0, 0, 0, 0);
    uint64_t since = rdtsc();
    if (t->regs[RDI])
        pages_release(end_of(0, t->regs[RDI]), (uint64_t)before);
    long r = pass(t);
    if (r == SYS_PENDING)
        return r;
    uint64_t end = end_of(0, (uint64_t)r);
    if (r > 0 && r < before)
        changed(end, (uint64_t)before - end, CHANGE_MAPPING, 0);
    else if (r > before && rt.runs_readable)
        grown(end_of(0, (uint64_t)before), end, since);
    last = r;
    return r;
}

/* Translated code has no CALL and RET of the program's, so there is never a shadow stack beneath it:
 * what the kernel has against taking it away (it has none of them, they are locked, no such feature), it
 * would have against giving it; else it is as if the processor had none. */
static long enable_shadow_stack(struct thread *t)
{
    t->regs[RDI] = SHADOW_STACK_DISABLE;
    long r = pass(t);
    t->regs[RDI] = SHADOW_STACK_ENABLE;
    return r ? r : -EOPNOTSUPP;
}

/* Filters are asked with the base that is in force, which is ours. */
static long set_gs(struct thread *t)
{
    uint64_t base = t->regs[RSI];
    long r = rt.filtered ? call_with(t, RSI, (uint64_t)t) : 0;
    if (r)
        return r;
    if (base >= USER_END)
        return -1;
    t->gs.base = base;
    t->gs.selector = 0;
    t->gs.apart = false;
    return 0;
}

static long get_gs(struct thread *t)
{
    long r = rt.filtered ? pass(t) : 0;
    return r ? r : rt_probe((void *)t->regs[RSI], &t->gs.base, 8) ? -14 : 0;
}

static long do_arch_prctl(struct thread *t)
{
    switch ((uint32_t)t->regs[RDI]) {
    case ARCH_SET_GS: return set_gs(t);
    case ARCH_GET_GS: return get_gs(t);
    case ARCH_REQ_XCOMP_PERM: return do_more_registers(t);
    case SHADOW_STACK_ENABLE: return enable_shadow_stack(t);
    default: return pass(t);
    }
}

/* Whether the kernel will refuse the file, as in the search of a PATH: then the other threads need not
 * halt for an exec. Where the kernel (before 5.8) or a filter has no such call, it is not known. */
static bool is_refused(const struct thread *t)
{
    const uint64_t *r = t->regs;
    bool at = t->sysno == SYS_execveat;
    long e = sys(NR_faccessat2, at ? r[RDI] : (uint64_t)AT_FDCWD, at ? r[RSI] : r[RDI], X_OK,
                 AT_EACCESS | (at ? r[R8] : 0), 0, 0);
    return e < 0 && e != -ENOSYS && e != -EPERM && e != -EINVAL;
}

/* The collector attaches, so that it can follow. */
static void ask_to_follow(struct thread *t)
{
    t->followed = collector_ask(t, COFI__FAST_NOTE_EXEC, NULL) == 1;
}

/* The exec has failed. Who looks for a program in many places tries the next one now; so this comes
 * before another call, which the stop for it would end if it waited (sigtimedwait, epoll_wait). */
static void follow_no_more(struct thread *t)
{
    t->followed = false;
    collector_ask(t, COFI__FAST_NOTE_EXEC_FAILED, NULL);
}

/* Followed, with the program's own mask. */
static long do_exec(struct thread *t)
{
    signals_block_all();
    if (!t->alien && !rt.control->stopped && !t->followed)
        ask_to_follow(t);
    uint64_t m = t->mask;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&m, 0, 8, 0, 0);
    bool alone = !is_refused(t);
    if (alone) {
        halt_others(t);
        signals_hand_over(t, true);
    }
    if (alone)
        share_leave(t);
    forbid_lend(t, true);
    log_rest(t);
    long r = pass(t);
    log_again(t);
    forbid_lend(t, false);
    if (alone)
        signals_hand_over(t, false);
    halt_over(t);
    signals_set_mask(t);
    return r;
}

/* The end, which a filter may refuse or trap. Where none does, the collector sees that the thread is gone. */
static long try_to_end(struct thread *t)
{
    seccomp_block(t);
    long r = rt_guest_syscall(t) ? SYS_PENDING : (long)t->regs[RAX];
    halt_over(t);
    signals_set_mask(t);
    return r;
}

/* The thread has made its last record. Its slot, the stack in it, too, may belong to another one from here on. */
void thread_over(struct thread *t)
{
    note_put(t, COFI__FAST_NOTE_EXIT, NULL, NULL, 0);
    log_rest(t);
    __atomic_store_n(&t->head.state, COFI__FAST_SLOT_ENDED, __ATOMIC_RELEASE);
}

static long do_exit(struct thread *t)
{
    signals_block_all();
    if (t->signal.has) /* it may be the process's, and is not to end with the thread */
        return SYS_PENDING;
    if (t->sysno == SYS_exit_group)
        halt_others(t);
    if (t->sysno == SYS_exit_group)
        share_leave(t);
    if (t->sysno != SYS_exit_group || t->head.vfork)
        targets_release_ending(t);
    if (rt.filtered)
        return try_to_end(t);
    uint64_t nr = t->sysno, status = t->regs[RDI];
    thread_over(t);
    for (;;)
        __asm__ volatile("syscall" : : "a"(nr), "D"(status) : "rcx", "r11", "memory");
}

static long do_clone_call(struct thread *t)
{
    if (t->sysno == NR_clone3) {
        uint64_t args[8];
        uint64_t size = t->regs[RSI] < sizeof args ? t->regs[RSI] : sizeof args;
        if (size < 64 || t->regs[RSI] > 4096)
            return pass(t); /* errors */
        if (rt_probe(args, (void *)t->regs[RDI], size))
            return -14;
        targets_release_tids(args);
        return thread_clone(t, args[0], args[5] ? args[5] + args[6] : 0);
    }
    /* Of clone's the kernel takes the lower half: those of the upper one are clone3's only. */
    uint64_t flags = t->sysno == SYS_fork ? 0 : t->sysno == SYS_vfork ? CLONE_VM | CLONE_VFORK : (uint32_t)t->regs[RDI];
    return thread_clone(t, flags, t->sysno == SYS_clone ? t->regs[RSI] : 0);
}

static long do_signal_call(struct thread *t)
{
    long asked = seccomp_ask(t);
    if (asked != SYS_PASS)
        return asked;
    return t->sysno == SYS_rt_sigaction     ? do_sigaction(t)
           : t->sysno == SYS_rt_sigprocmask ? do_sigprocmask(t)
                                            : do_sigaltstack(t);
}

void note_name(struct thread *t, const uint64_t who[4], size_t most)
{
    char name[16];
    size_t n = 0;
    most = most < sizeof name - 1 ? most : sizeof name - 1;
    while (n < most && !rt_probe(&name[n], (const void *)(t->regs[RSI] + n), 1) && name[n] && name[n] != '\n')
        n++;
    note_put(t, COFI__FAST_NOTE_COMM, who, name, n);
}

static long do_prctl(struct thread *t)
{
    int option = (int)t->regs[RDI];
    long r = t->sysno == SYS_seccomp    ? do_seccomp(t)
             : option == PR_SET_TSC     ? do_set_tsc(t)
             : option == PR_GET_TSC     ? do_get_tsc(t)
             : option == PR_DISPATCH    ? do_dispatch_user(t)
                                        : do_seccomp(t);
    if (r != SYS_PASS)
        return r;
    r = pass(t);
    if (!r && t->sysno == SYS_prctl && option == PR_SET_NAME)
        note_name(t, NULL, SIZE_MAX);
    return r;
}

static long do_open(struct thread *t)
{
    long r = pass(t);
    if (r >= 0)
        proc_file_opened(t, (uint64_t)r);
    return r;
}

static long do_write(struct thread *t)
{
    long r = pass(t);
    if (r > 0)
        proc_file_written(t, (uint64_t)r);
    return r;
}

static long do_advice(struct thread *t)
{
    advice_given(t);
    long r = pass(t);
    if (r != SYS_PENDING) /* where it has failed, it may have done a part: it goes on behind a hole [madvise(2)] */
        advice_taken(t);
    return r;
}

static long do_ioctl(struct thread *t)
{
    if (!advice_moves_pages(t))
        return pass(t);
    advice_pages_move(t);
    long r = pass(t);
    if (r != SYS_PENDING) /* where it has failed, it may have done a part */
        advice_pages_moved(t);
    return r;
}

static long do_personality(struct thread *t)
{
    long r = pass(t);
    rt.runs_readable |= (uint32_t)t->regs[RDI] != UINT32_MAX && t->regs[RDI] & READ_IMPLIES_EXEC;
    return r;
}

/* What is watched there could not be made writable again, so nothing is. */
static long do_seal(struct thread *t)
{
    pages_sealed(t->regs[RDI], end_of(t->regs[RDI], t->regs[RSI]));
    return pass(t);
}

static long do_limits(struct thread *t)
{
    long r = do_limit(t);
    return r == SYS_PASS ? pass(t) : r;
}

static long do_send(struct thread *t)
{
    long r = pass(t);
    if (!r)
        send_await(t);
    return r;
}

/* Who traces a child is to see the program's own code, calls and signals. One that executes something is not recorded
 * from there on anyway, and a whole program that asks to be traced has nobody who would look at it, most often. */
static long do_ptrace(struct thread *t)
{
    bool leaves = t->regs[RDI] == PTRACE_TRACEME && rt.forked && !t->head.vfork && !t->attach.asked;
    return leaves && leave_ask(t) ? SYS_PENDING : pass(t);
}

static long do_rseq(struct thread *t)
{
    long r = pass(t);
    if (!r)
        section_register(t);
    return r;
}

static long call(struct thread *t)
{
    switch (t->sysno) {
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_sigaltstack: return do_signal_call(t);
    case SYS_getrlimit:
    case SYS_setrlimit:
    case SYS_prlimit64: return do_limits(t);
    case SYS_mlockall: return do_mlockall(t);
    case SYS_munlockall: return do_munlockall(t);
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo: return do_send(t);
    case SYS_rt_sigpending: return do_sigpending(t);
    case SYS_rt_sigtimedwait: return do_sigtimedwait(t);
    case SYS_prctl:
    case SYS_seccomp: return do_prctl(t);
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_mremap:
    case SYS_shmat:
    case SYS_shmdt: return ours_spared(t, do_mapping);
    case SYS_brk: return do_break(t);
    case SYS_madvise: return ours_spared(t, do_advice);
    case SYS_ioctl: return do_ioctl(t);
    case SYS_personality: return do_personality(t);
    case NR_mseal: return ours_spared(t, do_seal);
    case SYS_open:
    case SYS_openat:
    case NR_openat2: return do_open(t);
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2: return do_write(t);
    case SYS_arch_prctl: return do_arch_prctl(t);
    case SYS_clone:
    case SYS_fork:
    case SYS_vfork:
    case NR_clone3: return do_clone_call(t);
    case SYS_execve:
    case SYS_execveat: return do_exec(t);
    case SYS_exit:
    case SYS_exit_group: return do_exit(t);
    case SYS_unshare:
    case SYS_setns:
        rt.other_pids = true; /* perhaps; it costs the collector a look */
        return pass(t);
    case SYS_ptrace: return do_ptrace(t);
    case SYS_userfaultfd:
        rt.misses_pages = true;
        return pass(t);
    case SYS_membarrier:
        section_barrier(t);
        return pass(t);
    case NR_rseq: return do_rseq(t);
    default: return pass(t);
    }
}

/* The SYSCALL at t->pc has come back. */
void call_done(struct thread *t, uint64_t result)
{
    t->regs[RAX] = result;
    t->regs[RCX] = t->pc + 2;
    t->regs[R11] = t->flags;
    t->pc += 2;
}

/* The SYSCALL at t->pc. Leaves pc behind it, or at it when a signal comes first. */
void do_syscall(struct thread *t)
{
    trace_pause(t, COFI__FAST_PGD, t->pc);
    if (t->dispatch.on && forbid_call(t))
        return;
    /* as the kernel; before what is watched is looked at, and what asks for a halt */
    __atomic_store_n(&t->sysno, (uint64_t)(int64_t)(int32_t)t->regs[RAX], __ATOMIC_SEQ_CST);
    if (t->asked)
        halt_await(t);
    t->attach.restart = 0;
    if (t->followed && t->sysno != SYS_execve && t->sysno != SYS_execveat)
        follow_no_more(t);
    if (t->strict)
        seccomp_strict(t, false);
    if (t->sysno == SYS_rt_sigreturn) {
        do_sigreturn(t);
        return;
    }
    if (rt.protected_pages)
        targets_release(t);
    bool offered = signals_offer(t);
    long r = call(t);
    if (offered)
        signals_set_mask(t); /* those that the call did not take come now, and are held again */
    if (r != SYS_PENDING)
        call_done(t, (uint64_t)r);
    if (r != -EINTR) /* else the mask with which the call has waited is the one in force */
        t->sysno = ~0ul;
    if (r == SYS_PENDING || t->signal.has)
        return; /* rt_dispatch delivers, and tells where tracing goes on */
    t->sysno = ~0ul;
    trace_resume(t);
}

/* A call of one of the three functions at fixed addresses, which the kernel does when their page faults: an event
 * there, and back at the caller. False: no such function, or its arguments fault; then let the kernel say so. */
bool do_vsyscall(struct thread *t)
{
    static const uint16_t numbers[] = {SYS_gettimeofday, SYS_time, SYS_getcpu};
    const uint64_t page = 0xffffffffff600000;
    uint64_t offset = t->pc - page, back;
    if (!rt.vsyscall || offset & ~0xc00ul || offset >> 10 > 2 || rt_probe(&back, (const void *)t->regs[RSP], 8))
        return false;
    long r = sys(numbers[offset >> 10], t->regs[RDI], t->regs[RSI], 0, 0, 0, 0);
    if (r == -14)
        return false;
    trace_pause(t, COFI__FAST_EVENT, t->pc);
    t->regs[RAX] = (uint64_t)r;
    t->regs[RSP] += 8;
    t->pc = back;
    trace_resume(t);
    return true;
}

/* SPDX-License-Identifier: MIT
 * Memory of the guest's that the kernel writes, in a call or when it likes. It is not to meet a watched
 * page there: it would stop, having read a part, lose what it has read, or end the program. */
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

enum { NR_rseq = 334, RSEQ_BYTES = 64, VECTORS_MAX = 1024, ROBUST_MAX = 2048 };

/* What a call writes: so many bytes, or so many buffers that a vector, a message or several messages name. */
enum shape { BYTES, VECTOR, MESSAGE, MESSAGES };
enum { NONE = 16 };

/* Calls that lose something if they cannot write, or do a part without an error, so they are made once.
 * Others are made again [pass]. */
static const struct target {
    uint16_t nr;
    uint8_t shape, at, n; /* registers: where, and how many */
    uint8_t each, more;   /* bytes */
} targets[] = {
    {SYS_read, BYTES, RSI, RDX, 1, 0},
    {SYS_pread64, BYTES, RSI, RDX, 1, 0},
    {SYS_readv, VECTOR, RSI, RDX, 0, 0},
    {SYS_preadv, VECTOR, RSI, RDX, 0, 0},
    {SYS_preadv2, VECTOR, RSI, RDX, 0, 0},
    {SYS_vmsplice, VECTOR, RSI, RDX, 0, 0},
    {SYS_process_vm_readv, VECTOR, RSI, RDX, 0, 0},
    {SYS_process_vm_writev, VECTOR, R10, R8, 0, 0}, /* to itself */
    {SYS_recvfrom, BYTES, RSI, RDX, 1, 0},
    {SYS_recvfrom, BYTES, R8, NONE, 0, 128},
    {SYS_recvfrom, BYTES, R9, NONE, 0, 4},
    {SYS_recvmsg, MESSAGE, RSI, NONE, 0, 0},
    {SYS_recvmmsg, MESSAGES, RSI, RDX, 0, 0},
    {SYS_sendmmsg, BYTES, RSI, RDX, 64, 0},
    {SYS_accept, BYTES, RSI, NONE, 0, 128},
    {SYS_accept, BYTES, RDX, NONE, 0, 4},
    {SYS_accept4, BYTES, RSI, NONE, 0, 128},
    {SYS_accept4, BYTES, RDX, NONE, 0, 4},
    {SYS_msgrcv, BYTES, RSI, RDX, 1, 8},
    {SYS_mq_timedreceive, BYTES, RSI, RDX, 1, 0},
    {SYS_mq_timedreceive, BYTES, R10, NONE, 0, 4},
    {SYS_epoll_wait, BYTES, RSI, RDX, 12, 0},
    {SYS_epoll_pwait, BYTES, RSI, RDX, 12, 0},
    {441, BYTES, RSI, RDX, 12, 0}, /* epoll_pwait2 */
    {SYS_getdents, BYTES, RSI, RDX, 1, 0},
    {SYS_getdents64, BYTES, RSI, RDX, 1, 0},
    {SYS_getrandom, BYTES, RDI, RSI, 1, 0},
    {SYS_syslog, BYTES, RSI, RDX, 1, 0},
    {SYS_wait4, BYTES, RSI, NONE, 0, 4},
    {SYS_wait4, BYTES, R10, NONE, 0, 144},
    {SYS_waitid, BYTES, RDX, NONE, 0, 128},
    {SYS_waitid, BYTES, R8, NONE, 0, 144},
    {SYS_rt_sigtimedwait, BYTES, RSI, NONE, 0, 128},
    {NR_rseq, BYTES, RDI, NONE, 0, RSEQ_BYTES},
};

/* Who is told of [start, end); true: no more. */
typedef bool visit(uint64_t start, uint64_t end, uint64_t page);

/* A number that the kernel takes the lower half of may be any: then all behind. */
static bool visit_bytes(visit *v, uint64_t start, uint64_t bytes, uint64_t page)
{
    uint64_t end = start + bytes < start ? UINT64_MAX : start + bytes;
    return end > start && v(start, end, page);
}

static bool visit_vector(visit *v, uint64_t at, uint64_t n, uint64_t page)
{
    struct { uint64_t base, bytes; } one;
    for (uint64_t i = 0; i < n && i < VECTORS_MAX && !rt_probe(&one, (void *)(at + i * sizeof one), sizeof one); i++)
        if (visit_bytes(v, one.base, one.bytes, page))
            return true;
    return false;
}

static bool visit_message(visit *v, uint64_t at, uint64_t page)
{
    struct msghdr m;
    return !rt_probe(&m, (void *)at, sizeof m) &&
           (visit_bytes(v, at, sizeof m, page) || visit_bytes(v, (uint64_t)m.msg_name, m.msg_namelen, page) ||
            visit_vector(v, (uint64_t)m.msg_iov, m.msg_iovlen, page) ||
            visit_bytes(v, (uint64_t)m.msg_control, m.msg_controllen, page));
}

static bool visit_messages(visit *v, uint64_t at, uint64_t n, uint64_t page)
{
    for (uint64_t i = 0; i < n && i < VECTORS_MAX; i++)
        if (visit_bytes(v, at + i * sizeof(struct mmsghdr), sizeof(struct mmsghdr), page) ||
            visit_message(v, at + i * sizeof(struct mmsghdr), page))
            return true;
    return false;
}

static bool visit_target(const struct thread *t, const struct target *w, visit *v, uint64_t page)
{
    uint64_t at = t->regs[w->at], n = w->n == NONE ? 0 : t->regs[w->n];
    switch ((enum shape)w->shape) {
    case BYTES: return visit_bytes(v, at, n * w->each + w->more, page);
    case VECTOR: return visit_vector(v, at, n, page);
    case MESSAGE: return visit_message(v, at, page);
    case MESSAGES: return visit_messages(v, at, n, page);
    }
    return false;
}

/* What the call in which the thread is writes. */
static bool visit_call(const struct thread *t, visit *v, uint64_t page)
{
    for (unsigned i = 0; i < ARRAY_LEN(targets); i++)
        if (t->sysno == targets[i].nr && visit_target(t, &targets[i], v, page))
            return true;
    return false;
}

/* Whether all is known that the call writes, so that none of it is watched. */
bool targets_known(const struct thread *t)
{
    for (unsigned i = 0; i < ARRAY_LEN(targets); i++)
        if (t->sysno == targets[i].nr)
            return true;
    return false;
}

static bool release(uint64_t start, uint64_t end, uint64_t page)
{
    (void)page;
    pages_release(start, end);
    return false;
}

static bool overlaps(uint64_t start, uint64_t end, uint64_t page)
{
    return start < page + 4096 && page < end;
}

/* No page that the call may write is watched. Where the arguments point, a page is enough but for buffers. */
void targets_release(const struct thread *t)
{
    static const uint8_t arguments[] = {RDI, RSI, RDX, R10, R8, R9};
    for (unsigned i = 0; i < ARRAY_LEN(arguments); i++)
        visit_bytes(release, t->regs[arguments[i]], 4096, 0);
    visit_call(t, release, 0);
}

static bool writes(const struct thread *t, uint64_t page)
{
    uint64_t rseq = __atomic_load_n(&t->rseq.at, __ATOMIC_SEQ_CST);
    return (rseq && overlaps(rseq, rseq + RSEQ_BYTES, page)) ||
           (__atomic_load_n(&t->sysno, __ATOMIC_SEQ_CST) != ~0ul && visit_call(t, overlaps, page));
}

/* Whether the kernel may write to the page, which is about to be watched, for some thread: in a call, or
 * its struct rseq. */
bool targets_on(uint64_t page)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* who comes to a call from here on sees that the page is watched */
    return threads_any(writes, page);
}

/* The kernel writes the numbers of threads where it was told, and says nothing if it cannot: those that
 * clone3 makes … */
void targets_release_tids(const uint64_t args[8])
{
    enum { PIDFD = 1, CHILD_TID, PARENT_TID };
    for (unsigned i = PIDFD; i <= PARENT_TID && rt.protected_pages; i++)
        visit_bytes(release, args[i], 4, 0);
}

/* … and that of one that ends, … */
static void release_own_tid(void)
{
    uint64_t at = 0;
    if (!sys(SYS_prctl, PR_GET_TID_ADDRESS, (uint64_t)&at, 0, 0, 0, 0))
        visit_bytes(release, at, 4, 0);
}

/* … and in the mutexes that it holds, that their owner is dead [set_robust_list]. */
static void release_mutexes(void)
{
    struct robust_list_head *head = NULL, list;
    uint64_t bytes = 0, entry;
    if (sys(SYS_get_robust_list, 0, (uint64_t)&head, (uint64_t)&bytes, 0, 0, 0) || !head ||
        rt_probe(&list, head, sizeof list))
        return;
    entry = (uint64_t)list.list_op_pending;
    visit_bytes(release, (entry & ~1ul) + (uint64_t)list.futex_offset, 4, 0);
    entry = (uint64_t)list.list.next;
    for (unsigned i = 0; i < ROBUST_MAX && (entry & ~1ul) != (uint64_t)head; i++) {
        visit_bytes(release, (entry & ~1ul) + (uint64_t)list.futex_offset, 4, 0);
        if (rt_probe(&entry, (void *)(entry & ~1ul), sizeof entry))
            break;
    }
}

/* The thread is about to end. */
void targets_release_ending(const struct thread *t)
{
    if (!rt.protected_pages || t->filtered)
        return;
    release_own_tid();
    release_mutexes();
}

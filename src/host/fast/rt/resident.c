/* SPDX-License-Identifier: MIT
 * mlockall(MCL_CURRENT): all of the guest's mappings are locked, but none of the runtime's, which are
 * large and hardly used. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

enum { ALL_FLAGS = MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT, LOCK_ONFAULT = 1, NR_mlock2 = 325 };

struct locking {
    uint64_t bytes; /* of all mappings */
    bool lock;
    uint64_t flags;
};

static void take_mapping(void *context, char *line, const char *end)
{
    struct locking *l = context;
    struct mapping m;
    mapping_parse(&m, line, end);
    if (m.start >> 63 || ours_at(m.start))
        return;
    l->bytes += m.end - m.start;
    if (l->lock)
        sys(NR_mlock2, m.start, m.end - m.start, l->flags, 0, 0, 0); /* as mlockall, which does not say
                                                                      * what cannot be locked */
}

static bool may_lock_all(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return !sys(SYS_capget, (uint64_t)&head, (uint64_t)data, 0, 0, 0, 0) && data[0].effective >> CAP_IPC_LOCK & 1;
}

/* As the kernel judges, of what the guest has. */
static long refusal(uint64_t bytes)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    sys(SYS_getrlimit, RLIMIT_MEMLOCK, (uint64_t)&limit, 0, 0, 0, 0);
    if ((limit.rlim_cur && bytes <= limit.rlim_cur) || may_lock_all())
        return 0;
    return limit.rlim_cur ? -ENOMEM : -EPERM;
}

/* Returns whether somebody says what the mappings are. */
static bool take_mappings(struct locking *l)
{
    int fd = mappings_open();
    if (fd >= 0)
        mappings_read(fd, take_mapping, l);
    return fd >= 0;
}

/* The lock is held. SYS_PASS: nobody says what the mappings are. */
static long lock_current(uint64_t flags)
{
    struct locking l = {.flags = flags & MCL_ONFAULT ? LOCK_ONFAULT : 0};
    if (!take_mappings(&l))
        return SYS_PASS;
    long r = refusal(l.bytes);
    if (!r && flags & MCL_FUTURE)
        r = sys(SYS_mlockall, flags & ~(uint64_t)MCL_CURRENT, 0, 0, 0, 0, 0);
    else if (!r && rt.locks)
        sys(SYS_munlockall, 0, 0, 0, 0, 0, 0);
    if (r)
        return r;
    rt.locks = flags & MCL_FUTURE;
    l.lock = true;
    take_mappings(&l);
    return 0;
}

static long pass(struct thread *t, bool locks)
{
    if (rt_guest_syscall(t))
        return SYS_PENDING;
    if (!t->regs[RAX])
        rt.locks = locks;
    return (long)t->regs[RAX];
}

/* A program that came with filters makes its call itself: they may not let the others pass. */
long do_mlockall(struct thread *t)
{
    uint64_t flags = (uint32_t)t->regs[RDI];
    long r = SYS_PASS;
    if (flags & MCL_CURRENT && !(flags & ~(uint64_t)ALL_FLAGS) && !t->filtered) {
        r = seccomp_ask(t);
        rt_lock();
        r = r == SYS_PASS ? lock_current(flags) : r;
        rt_unlock();
    }
    return r == SYS_PASS ? pass(t, flags & MCL_FUTURE) : r;
}

long do_munlockall(struct thread *t) { return pass(t, false); }

/* SPDX-License-Identifier: MIT
 * The limits of a program's memory, as the kernel has them. */
#include "host/fast/limits.h"

#include <fcntl.h>
#include <unistd.h>

bool cofi__fast_promises_are_kept(void)
{
    char mode = 0;
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    bool told = fd >= 0 && read(fd, &mode, 1) == 1;
    if (fd >= 0)
        close(fd);
    return told && mode == '2';
}

static const unsigned resources[] = {RLIMIT_AS, RLIMIT_DATA};

static bool is_unlimited(pid_t pid, unsigned resource)
{
    struct rlimit l;
    return !prlimit(pid, resource, NULL, &l) && l.rlim_cur == RLIM_INFINITY && l.rlim_max == RLIM_INFINITY;
}

uint32_t cofi__fast_limits_to_come(pid_t pid)
{
    uint32_t which = 0;
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++)
        which |= is_unlimited(pid, resources[i]) ? UINT32_C(1) << resources[i] : 0;
    return which;
}

bool cofi__fast_is_limited(pid_t pid)
{
    bool limited = false;
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++)
        limited |= !is_unlimited(pid, resources[i]);
    return limited;
}

bool cofi__fast_lacks_room(const struct cofi__fast_control *control, pid_t pid)
{
    struct rlimit l;
    bool lacks = false;
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        bool ours = control->limits >> resources[i] & 1;
        lacks |= !ours && !prlimit(pid, resources[i], NULL, &l) &&
                 l.rlim_cur < cofi__fast_least_room(control, resources[i]);
    }
    return lacks;
}

void cofi__fast_limits_without_room(const struct cofi__fast_control *control, pid_t pid)
{
    struct rlimit l;
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        uint64_t room = cofi__fast_room(control, resources[i]);
        if (!(control->limits >> resources[i] & 1) || prlimit(pid, resources[i], NULL, &l))
            continue;
        l = (struct rlimit){cofi__fast_without_room(l.rlim_cur, room), cofi__fast_without_room(l.rlim_max, room)};
        prlimit(pid, resources[i], &l, NULL);
    }
}

/* SPDX-License-Identifier: MIT
 * A descriptor -> another process, over a socket pair of its own: it may be another user's, or see other
 * files, processes and networks than we do, so that no name would lead from it to us. */
#include "host/fast/lend.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "host/proc.h"

bool cofi__fast_is_same_file(pid_t tid, long theirs, int ours)
{
    char path[64];
    struct stat a, b;
    snprintf(path, sizeof path, "/proc/%d/fd/%ld", tid, theirs);
    return !stat(path, &a) && !fstat(ours, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void cofi__fast_letter(struct cofi__fast_letter *l, unsigned long address)
{
    l->byte = (struct iovec){(void *)(address + offsetof(struct cofi__fast_letter, text)), 1};
    l->message = (struct msghdr){.msg_iov = (struct iovec *)(address + offsetof(struct cofi__fast_letter, byte)),
                                 .msg_iovlen = 1,
                                 .msg_control = (void *)(address + offsetof(struct cofi__fast_letter, control)),
                                 .msg_controllen = sizeof l->control};
}

static bool send_to(int socket, int fd)
{
    struct cofi__fast_letter l = {0};
    cofi__fast_letter(&l, (unsigned long)&l);
    l.control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&l.control.head), &fd, sizeof fd);
    return sendmsg(socket, &l.message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* A descriptor of the thread's process as one of ours. */
static int take(pid_t tid, int theirs)
{
    int process = (int)syscall(SYS_pidfd_open, cofi__proc_number(tid, "Tgid:"), 0);
    if (process < 0)
        return -1;
    int fd = (int)syscall(SYS_pidfd_getfd, process, theirs, 0);
    close(process);
    return fd;
}

int cofi__fast_lend(pid_t tid, int their_socket, int fd)
{
    int socket = take(tid, their_socket);
    if (socket < 0)
        return COFI_ERR_SYSTEM;
    /* a thread may have descriptors of its own, unlike its process's */
    bool sent = cofi__fast_is_same_file(tid, their_socket, socket) && send_to(socket, fd);
    close(socket);
    return sent ? 0 : COFI_ERR_SYSTEM;
}

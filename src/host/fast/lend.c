/* SPDX-License-Identifier: MIT
 * A descriptor -> another process, over a socket: it may be another user's, or see another file system, than ours. */
#include "host/fast/lend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

int cofi__fast_lend_open(struct sockaddr_un *name, socklen_t *bytes)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    *bytes = sizeof *name;
    if (fd < 0)
        return COFI_ERR_SYSTEM;
    /* No name given: the kernel finds one [unix(7), autobind]. */
    if (bind(fd, (struct sockaddr *)name, sizeof name->sun_family) || listen(fd, 8) || getsockname(fd, (struct sockaddr *)name, bytes)) {
        close(fd);
        return COFI_ERR_SYSTEM;
    }
    return fd;
}

static bool is_thread_of(pid_t tid, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
    return !access(path, F_OK);
}

void cofi__fast_letter(struct cofi__fast_letter *l, unsigned long address)
{
    l->byte = (struct iovec){(void *)(address + offsetof(struct cofi__fast_letter, text)), 1};
    l->message = (struct msghdr){.msg_iov = (struct iovec *)(address + offsetof(struct cofi__fast_letter, byte)), .msg_iovlen = 1,
                                 .msg_control = (void *)(address + offsetof(struct cofi__fast_letter, control)),
                                 .msg_controllen = sizeof l->control};
}

static bool send_to(int socket, int fd)
{
    struct cofi__fast_letter l = {0};
    cofi__fast_letter(&l, (unsigned long)&l);
    l.control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&l.control.head), &fd, sizeof fd);
    return sendmsg(socket, &l.message, MSG_NOSIGNAL) == 1;
}

int cofi__fast_lend(int listener, pid_t to, int fd)
{
    int socket;
    bool sent = false;
    while (!sent && (socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct ucred peer = {0};
        socklen_t bytes = sizeof peer;
        sent = !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && is_thread_of(to, peer.pid) && send_to(socket, fd);
        close(socket);
    }
    return sent ? 0 : COFI_ERR_SYSTEM;
}

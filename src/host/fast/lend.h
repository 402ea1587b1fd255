/* SPDX-License-Identifier: MIT
 * The shared memory to a process that cannot open it by its name. */
#ifndef COFI_HOST_FAST_LEND_H
#define COFI_HOST_FAST_LEND_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Whether the thread's descriptor is the same open file as ours, or another one of that file. */
bool cofi__fast_is_same_file(pid_t tid, long theirs, int ours);

/* Send a descriptor to the other end of a thread's socket pair, which is stopped by ptrace.
 * COFI_ERR_SYSTEM, also before Linux 5.6. */
int cofi__fast_lend(pid_t tid, int their_socket, int fd);

/* What the receiver hands to recvmsg: a byte, and the descriptor behind control.head. Addresses are its own. */
struct cofi__fast_letter {
    int sockets[2]; /* the receiver's, the sender's */
    struct msghdr message;
    struct iovec byte;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char text[8];
};
/* Fill it in as it will lie at `address` of who uses it; the sockets stay as they are. */
void cofi__fast_letter(struct cofi__fast_letter *letter, unsigned long address);

#endif

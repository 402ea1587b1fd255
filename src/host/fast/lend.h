/* SPDX-License-Identifier: MIT
 * The shared memory to a process that cannot open it by its name. */
#ifndef COFI_HOST_FAST_LEND_H
#define COFI_HOST_FAST_LEND_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* A socket to connect to, by a name that needs no file; *name has *bytes. Negative: COFI_ERR_SYSTEM. */
int cofi__fast_lend_open(struct sockaddr_un *name, socklen_t *bytes);
/* The thread `to` has connected: send it a descriptor. Others that connect get nothing. COFI_ERR_SYSTEM. */
int cofi__fast_lend(int listener, pid_t to, int fd);

/* What the receiver hands to recvmsg: a byte, and the descriptor behind control.head. Addresses are its own. */
struct cofi__fast_letter {
    struct sockaddr_un name;
    struct msghdr message;
    struct iovec byte;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char text[8];
};
/* Fill it in as it will lie at `address` of who uses it; the name stays as it is. */
void cofi__fast_letter(struct cofi__fast_letter *letter, unsigned long address);

#endif

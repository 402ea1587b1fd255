/* SPDX-License-Identifier: MIT
 * The mounts of two namespaces and a path in one of them -> paths in the other that may lead to the same file. */
#ifndef COFI_HOST_MOUNTS_H
#define COFI_HOST_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COFI__NAME_BYTES = 4096 };

struct cofi__mount {
    const char *point;   /* where it is */
    const char *root;    /* the directory of its file system that it shows there */
    const char *options; /* its file system's own ones, escaped as the kernel shows them */
    uint64_t id, device;
    bool overlay;
    bool served;         /* by a program (FUSE): who looks at its files waits for that */
    bool layered;        /* … fuse-overlayfs */
    bool passing;        /* of a kind that goes with the container: an overlay, or one that a program serves */
};

struct cofi__mounts {
    struct cofi__mount *mount; /* in the order of the text */
    size_t n, room;
    char *text;
    char root[COFI__NAME_BYTES]; /* in the namespace: points are below it; "": all of it */
};

/* A text of /proc/PID/mountinfo. What cannot be understood, is deleted or too much is left out.
 * COFI_ERR_NOMEM: there are none. */
int cofi__mounts_parse(struct cofi__mounts *mounts, const char *text, size_t bytes, const char *root);
void cofi__mounts_free(struct cofi__mounts *mounts);

/* The mount that a file is in: of its device; or else, where files have other numbers than their mounts
 * (btrfs), by its path. Null: none. */
const struct cofi__mount *cofi__mounts_of(const struct cofi__mounts *mounts, uint64_t device, const char *path);

/* A search tries one path after the other until one is the file's. */
struct cofi__search {
    const struct cofi__mounts *theirs, *ours;
    bool (*is_it)(void *opaque, const char *path, uint64_t mount); /* mount: the id of ours that it must
                                                                    * lie in; 0: any */
    void *opaque;
    unsigned cost; /* so far */
    bool passing;  /* the path that is tried, or was found, may go with the container: in such a mount,
                    * or an upper layer */
};

/* name: absolute, in their namespace. Returns whether a path was the file's. At most a thousand are
 * tried in one search, whatever the texts hold. */
bool cofi__mounts_search(struct cofi__search *search, const char *name);

#endif

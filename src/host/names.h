/* SPDX-License-Identifier: MIT
 * A mapping and the name that it has -> the name by which we find its file. */
#ifndef COFI_HOST_NAMES_H
#define COFI_HOST_NAMES_H

#include "host/namespaces.h"

struct cofi__mapped {
    int32_t pid;
    uint64_t start, end, offset; /* [start, end) of the process shows the file from there on */
};

enum cofi__found {
    COFI__NOWHERE,
    COFI__FOR_NOW, /* the file may go with the process's container: its code is to be kept, too */
    COFI__FOUND
};

/* A process in another root, or with other mounts, has names that lead us to other files, or nowhere:
 * name becomes the path of a file that holds what is mapped, else one below /proc/PID/root, which leads
 * there while the process is, and nowhere later. */
enum cofi__found cofi__name_for_us(struct cofi__namespaces *namespaces, const struct cofi__mapped *map,
                                   char name[COFI__NAME_BYTES]);

#endif

/* SPDX-License-Identifier: MIT
 * /proc/TID/maps -> the executable mappings of an address space. */
#include "host/step/maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "host/long_name.h"

static bool parse(char *line, struct step_mapping *m)
{
    unsigned long start, end, pgoff, inode;
    unsigned major, minor;
    char prot[5];
    int path = 0;
    if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, prot, &pgoff, &major, &minor,
               &inode, &path) < 7 ||
        !path)
        return false;
    if (prot[2] != 'x')
        return false;
    line[strcspn(line, "\n")] = 0;
    *m = (struct step_mapping){.start = start, .end = end, .pgoff = pgoff, .inode = inode,
                               .major = major, .minor = minor};
    m->prot = PROT_EXEC | (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0);
    m->flags = prot[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
    m->watched = prot[1] == 'w' || prot[3] == 's';
    size_t n = strlen(line + path);
    if (n >= COFI__PATH_BYTES)
        cofi__short_name(line + path, n, line + path);
    m->path = strdup(line + path);
    return true;
}

int cofi__step_maps_read(pid_t tid, struct step_mapping **out, size_t *n)
{
    char name[64], *line = NULL;
    size_t line_max = 0, max = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)tid);
    *out = NULL;
    *n = 0;
    FILE *f = fopen(name, "re");
    if (!f)
        return -errno;
    int status = 0;
    while (!status && getline(&line, &line_max, f) > 0) {
        struct step_mapping m;
        if (!parse(line, &m))
            continue;
        if (!m.path || cofi__array_grow(out, &max, *n, sizeof **out) < 0)
            status = -ENOMEM;
        else
            (*out)[(*n)++] = m;
        if (status)
            free(m.path);
    }
    free(line);
    fclose(f);
    return status;
}

void cofi__step_maps_free(struct step_mapping *maps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(maps[i].path);
        free(maps[i].file);
    }
    free(maps);
}

bool cofi__step_maps_is_file(const struct step_mapping *m) { return m->path[0] == '/'; }

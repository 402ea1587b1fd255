/* SPDX-License-Identifier: MIT
 * What the kernel says of this process's mappings: all of them, as /proc/self/maps has them, or those at an address. */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"

static const char *mapping_hex(const char *p, uint64_t *v)
{
    *v = 0;
    for (;; p++) {
        unsigned d = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : 16;
        if (d == 16)
            return p;
        *v = *v * 16 + d;
    }
}

static const char *decimal(const char *p, uint64_t *v)
{
    for (*v = 0; *p >= '0' && *p <= '9'; p++)
        *v = *v * 10 + (uint64_t)(*p - '0');
    return p;
}

/* The kernel writes a newline in a name as \\012. Returns the name's length. */
static size_t unescape(char *name, const char *end)
{
    char *to = name;
    for (const char *from = name; from < end; to++) {
        bool newline = end - from >= 4 && !memcmp(from, "\\012", 4);
        *to = newline ? '\n' : *from;
        from += newline ? 4 : 1;
    }
    return (size_t)(to - name);
}

/* A line, which is changed. */
void mapping_parse(struct mapping *m, char *line, const char *end)
{
    struct origin *o = &m->origin;
    uint64_t major, minor;
    const char *p = mapping_hex(line, &m->start);
    p = mapping_hex(p + 1, &m->end);
    m->writable = p[2] == 'w';
    m->executable = p[3] == 'x';
    m->shared = p[4] == 's';
    p = mapping_hex(p + 6, &o->offset);
    p = mapping_hex(p + 1, &major);
    p = mapping_hex(p + 1, &minor);
    p = decimal(p + 1, &o->inode);
    while (p < end && *p == ' ')
        p++;
    o->name = p;
    o->n = unescape(line + (p - line), end);
}

/* A descriptor of /proc/self/maps, or how it cannot be opened. */
int mappings_open(void)
{
    return (int)sys(SYS_openat, (uint32_t)AT_FDCWD, (uint64_t)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

/* All mappings, line by line; then it is closed. */
void mappings_read(int fd, void (*take)(void *context, char *line, const char *end), void *context)
{
    static char buffer[65536];
    size_t have = 0;
    for (;;) {
        long n = sys(SYS_read, (uint64_t)fd, (uint64_t)(buffer + have), sizeof buffer - have, 0, 0, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
        size_t start = 0;
        for (size_t i = 0; i < have; i++)
            if (buffer[i] == '\n') {
                take(context, buffer + start, buffer + i);
                start = i + 1;
            }
        memcpy(buffer, buffer + start, have - start);
        have -= start;
    }
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
}

struct sought {
    uint64_t address, start;
};

static void take_sought(void *context, char *line, const char *end)
{
    struct sought *s = context;
    struct mapping m;
    mapping_parse(&m, line, end);
    if (m.start <= s->address && s->address < m.end)
        s->start = m.start;
}

/* Where the mapping begins that an address lies in; at the address, where nobody says. */
uint64_t mapping_start(uint64_t address)
{
    struct sought s = {address, address};
    int fd = mappings_open();
    if (fd >= 0)
        mappings_read(fd, take_sought, &s);
    return s.start;
}

/* struct procmap_query of linux/fs.h, from Linux 6.11 on. */
struct query {
    uint64_t size, flags, address, start, end, rights, page_size, offset, inode;
    uint32_t major, minor, name_bytes, build_id_bytes;
    uint64_t name, build_id;
};
enum {
    PROCMAP_QUERY = 0xc0686611, QUERY_WRITABLE = 2, QUERY_EXECUTABLE = 4, QUERY_SHARED = 8, QUERY_COVERING_OR_NEXT = 16
};
_Static_assert(sizeof(struct query) == (PROCMAP_QUERY >> 16 & 0x3fff), "struct procmap_query");

/* The first executable mapping that ends behind an address; if there is none, one at the end of all. Its
 * name is there until the next one is asked for. False: the kernel does not tell. */
bool mapping_query(int fd, uint64_t address, struct mapping *m)
{
    static char name[4096];
    struct query q = {.size = sizeof q,
                      .flags = QUERY_EXECUTABLE | QUERY_COVERING_OR_NEXT,
                      .address = address,
                      .name_bytes = sizeof name,
                      .name = (uint64_t)name};
    long r = sys(SYS_ioctl, (uint64_t)fd, (uint32_t)PROCMAP_QUERY, (uint64_t)&q, 0, 0, 0);
    *m = (struct mapping){~0ul, ~0ul, true, q.rights & QUERY_WRITABLE, q.rights & QUERY_SHARED,
                          {q.inode, q.offset, name, q.name_bytes ? q.name_bytes - 1 : 0}};
    if (!r)
        m->start = q.start, m->end = q.end;
    return !r || r == -ENOENT;
}

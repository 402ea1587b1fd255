/* SPDX-License-Identifier: MIT
 * A path -> the file system that it leads to and the path in there -> where else that can be reached:
 * proc_pid_mountinfo(5), and the kernel's overlayfs.rst for the layers that an overlay is made of. */
#include "host/mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/error.h>

#include "base/array.h"

/* An overlay has 500 layers at most, few have more than 127. A mount that is looked at costs one of what
 * a search may cost. */
enum { MOUNTS = 1 << 14, COST = 1 << 21, COST_OF_TRY = 1 << 11 };

/* ---- texts ---- */

static bool is_octal(const char *p, char most) { return *p >= '0' && *p <= most; }

/* One byte of what the kernel escapes as \040. */
static char take_byte(const char **at)
{
    const char *p = *at;
    bool escaped = p[0] == '\\' && is_octal(p + 1, '3') && is_octal(p + 2, '7') && is_octal(p + 3, '7');
    *at += escaped ? 4 : 1;
    return escaped ? (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0')) : *p;
}

static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++)
        *to = take_byte(&from);
    *to = 0;
}

/* The next word; the rest of the line is behind it. Words can be empty. */
static char *take_word(char **line)
{
    char *word = *line, *end = word + strcspn(word, " ");
    *line = end + (*end == ' ');
    *end = 0;
    return word;
}

static bool is_deleted(const char *path)
{
    static const char mark[] = "//deleted";
    size_t n = strlen(path);
    return n >= sizeof mark - 1 && !strcmp(path + n - (sizeof mark - 1), mark);
}

/* "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/sda rw,errors=continue" */
static bool parse_line(struct cofi__mount *m, char *line)
{
    unsigned major, minor;
    m->id = strtoull(take_word(&line), NULL, 10);
    take_word(&line); /* of the mount that it is on */
    if (sscanf(take_word(&line), "%u:%u", &major, &minor) != 2)
        return false;
    m->device = (uint64_t)major << 32 | minor;
    char *root = take_word(&line), *point = take_word(&line);
    while (*line && strcmp(take_word(&line), "-"))
        ;
    const char *type = take_word(&line);
    m->overlay = !strcmp(type, "overlay");
    m->served = !strncmp(type, "fuse", 4);
    m->layered = !strcmp(type, "fuse.fuse-overlayfs");
    m->passing = m->overlay || m->served;
    take_word(&line); /* its source */
    m->options = line;
    unescape(root);
    unescape(point);
    m->root = root;
    m->point = point;
    return root[0] == '/' && point[0] == '/' && !is_deleted(root) && !is_deleted(point);
}

static int add_line(struct cofi__mounts *mounts, char *line)
{
    struct cofi__mount m;
    if (mounts->n == MOUNTS || !parse_line(&m, line))
        return 0;
    int status = cofi__array_grow(&mounts->mount, &mounts->room, mounts->n, sizeof m);
    if (!status)
        mounts->mount[mounts->n++] = m;
    return status;
}

int cofi__mounts_parse(struct cofi__mounts *mounts, const char *text, size_t bytes, const char *root)
{
    int status = 0;
    *mounts = (struct cofi__mounts){.text = malloc(bytes + 1)};
    snprintf(mounts->root, sizeof mounts->root, "%s", root);
    if (!mounts->text)
        return COFI_ERR_NOMEM;
    memcpy(mounts->text, text, bytes);
    mounts->text[bytes] = 0;
    for (char *line = mounts->text, *end; !status && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        status = add_line(mounts, line);
    }
    if (status)
        cofi__mounts_free(mounts);
    return status;
}

void cofi__mounts_free(struct cofi__mounts *mounts)
{
    free(mounts->mount);
    free(mounts->text);
    *mounts = (struct cofi__mounts){0};
}

/* ---- paths ---- */

/* What of a path is behind a directory that it leads through: "" or from the next slash on; null: it does not. */
static const char *behind(const char *directory, const char *path)
{
    size_t n = strcmp(directory, "/") ? strlen(directory) : 0;
    return !strncmp(directory, path, n) && (!path[n] || path[n] == '/') ? path + n : NULL;
}

const struct cofi__mount *cofi__mounts_of(const struct cofi__mounts *mounts, uint64_t device, const char *path)
{
    const struct cofi__mount *last = NULL; /* what comes later lies in what was there before, or covers it */
    for (const struct cofi__mount *m = mounts->mount; m < mounts->mount + mounts->n; m++) {
        if (m->device == device)
            return m;
        if (behind(m->point, path))
            last = m;
    }
    return last;
}

/* Put together, with one slash where one part ends with one and the next begins with one. False: too long. */
static bool join(char path[COFI__NAME_BYTES], const char *const *parts, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(parts[i]);
        used -= used && path[used - 1] == '/' && (parts[i][0] == '/' || !bytes);
        if (used + bytes >= COFI__NAME_BYTES)
            return false;
        memcpy(path + used, parts[i], bytes);
        used += bytes;
    }
    path[used] = 0;
    return true;
}

static bool can_pay(struct cofi__search *s, unsigned cost)
{
    bool can = s->cost + cost <= COST;
    s->cost += can ? cost : 0;
    return can;
}

static bool try_path(struct cofi__search *s, const char *path, uint64_t mount)
{
    return can_pay(s, COST_OF_TRY) && s->is_it(s->opaque, path, mount);
}

/* The file system is mounted here, too: by a mount of the same directory, of one above it or, of a file,
 * of that one. */
static bool search_device(struct cofi__search *s, const struct cofi__mount *m, const char *rest)
{
    char inside[COFI__NAME_BYTES], path[COFI__NAME_BYTES];
    bool passing = s->passing;
    if (!join(inside, (const char *[]){m->root, rest}, 2))
        return false;
    s->passing |= m->passing;
    for (const struct cofi__mount *o = s->ours->mount; o < s->ours->mount + s->ours->n && can_pay(s, 1); o++) {
        const char *below = o->device == m->device ? behind(o->root, inside) : NULL;
        if (below && join(path, (const char *[]){o->point, below}, 2) && try_path(s, path, o->id))
            return true;
    }
    s->passing = passing;
    return false;
}

/* ---- overlays ---- */

/* The value of the first option of a name that comes from here on, or null. name: with its equals sign. */
static const char *option(const char *from, const char *name)
{
    size_t n = strlen(name);
    while (from && strncmp(from, name, n))
        from = (from = strchr(from, ',')) ? from + 1 : NULL;
    return from ? from + n : NULL;
}

static bool is_end(const char *at) { return !*at || *at == ','; }

/* A directory out of an option's value; a list has colons between them, and a backslash before what is none. */
static bool take_directory(const char **at, bool list, char directory[COFI__NAME_BYTES])
{
    size_t n = 0;
    bool more = !is_end(*at);
    while (!is_end(*at)) {
        char byte = take_byte(at);
        if (list && byte == ':')
            break;
        if (list && byte == '\\' && !is_end(*at))
            byte = take_byte(at);
        if (n < COFI__NAME_BYTES - 1)
            directory[n++] = byte;
    }
    directory[n] = 0;
    return more;
}

static char *go_up(char *path)
{
    char *slash = strrchr(path, '/');
    *(slash ? slash : path) = 0;
    return path;
}

static bool search_mounts(struct cofi__search *s, const char *name, bool layers);

/* A layer is named as whoever mounted it saw it: as we do, mostly, or as the process does. */
static bool search_layer(struct cofi__search *s, const char *base, const char *directory, const char *rest)
{
    char path[COFI__NAME_BYTES];
    if (!join(path, (const char *[]){base, "/", directory, rest}, 4))
        return false;
    return try_path(s, path, 0) || search_mounts(s, path, false);
}

/* Layers that are told by relative names, since the page that all options must fit in is too small for
 * others, lie where the upper one lies, else in the stores of Docker and Podman. */
static bool search_bases(struct cofi__search *s, const char *upper_base, const char *directory, const char *rest)
{
    static const char *const stores[] = {"/var/lib/docker/overlay2", "/var/lib/containers/storage/overlay"};
    if (!directory[0])
        return false;
    if (directory[0] == '/')
        return search_layer(s, "", directory, rest);
    return (upper_base && search_layer(s, upper_base, directory, rest)) ||
           search_layer(s, stores[0], directory, rest) || search_layer(s, stores[1], directory, rest);
}

/* From the uppermost down. STORE/NAME/diff is a usual upper directory, STORE/NAME/fs is another. */
static bool search_layers(struct cofi__search *s, const struct cofi__mount *m, const char *rest)
{
    char upper[COFI__NAME_BYTES] = "", directory[COFI__NAME_BYTES], inside[COFI__NAME_BYTES];
    const char *at = option(m->options, "upperdir="), *base = NULL;
    if (!join(inside, (const char *[]){m->root, rest}, 2))
        return false;
    s->passing = true;
    if (at && take_directory(&at, false, upper) && search_bases(s, NULL, upper, inside))
        return true;
    s->passing = false;
    if (upper[0] == '/')
        base = go_up(go_up(upper));
    for (at = option(m->options, "lowerdir="); at && take_directory(&at, true, directory);)
        if (search_bases(s, base, directory, inside))
            return true;
    for (at = option(m->options, "lowerdir+="); at && take_directory(&at, false, directory);
         at = option(at, "lowerdir+="))
        if (search_bases(s, base, directory, inside))
            return true;
    return false;
}

/* ---- mounts ---- */

/* Of the mounts that a path leads through, the next after one, or the first: the deepest, and of those
 * at one point the latest. */
static const struct cofi__mount *next_above(struct cofi__search *s, const char *path, const struct cofi__mount *after)
{
    const struct cofi__mounts *mounts = s->theirs;
    const struct cofi__mount *best = NULL;
    size_t deepest = 0, most = after ? strlen(after->point) : SIZE_MAX;
    for (const struct cofi__mount *m = mounts->mount; m < mounts->mount + mounts->n && can_pay(s, 1); m++) {
        size_t n = strlen(m->point);
        if (n < deepest || n > most || (n == most && m >= after) || !behind(m->point, path))
            continue;
        best = m;
        deepest = n;
    }
    return best;
}

/* Not only the deepest, which shows the file: others may have covered it since. */
static bool search_mounts(struct cofi__search *s, const char *name, bool layers)
{
    const char *path = behind(s->theirs->root, name);
    for (const struct cofi__mount *m = NULL; path && (m = next_above(s, path, m));) {
        const char *rest = behind(m->point, path);
        if ((layers && m->overlay && search_layers(s, m, rest)) || search_device(s, m, rest))
            return true;
    }
    return false;
}

bool cofi__mounts_search(struct cofi__search *search, const char *name)
{
    return search_mounts(search, name, true);
}

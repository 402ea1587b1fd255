/* SPDX-License-Identifier: MIT
 * Path and build id -> the file's bytes, window by window. */
#include "image/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/room.h"
#include "image/module.h"
#include "image/symbols.h"

enum { BUCKETS = 256 };

static _Atomic int files_open; /* that stay so */

struct cofi__store {
    _Atomic size_t refs;
    pthread_mutex_t lock; /* holds what follows */
    struct cofi__source *files[BUCKETS], *bytes;
    struct cofi__room windows;
};

struct cofi__store *cofi__store_open(void)
{
    struct cofi__store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    atomic_init(&store->refs, 1);
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

struct cofi__store *cofi__store_ref(struct cofi__store *store)
{
    atomic_fetch_add(&store->refs, 1);
    return store;
}

static void free_sources(struct cofi__source *source)
{
    while (source) {
        struct cofi__source *next = source->next;
        if (source->is_open) {
            close(source->fd);
            atomic_fetch_sub(&files_open, 1);
        }
        free(source->windows);
        free(source->loads);
        cofi__symbols_free(atomic_load(&source->symbols));
        if (!source->borrowed)
            free((void *)source->bytes);
        pthread_mutex_destroy(&source->lock);
        free(source->path);
        free(source->file);
        free(source->asked_file);
        free(source);
        source = next;
    }
}

void cofi__store_unref(struct cofi__store *store)
{
    if (!store || atomic_fetch_sub(&store->refs, 1) != 1)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        free_sources(store->files[i]);
    free_sources(store->bytes);
    cofi__room_free(&store->windows);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static struct cofi__source *make_source(enum cofi__source_kind kind, const char *path)
{
    bool file = kind != COFI__SOURCE_BYTES; /* bytes are many, so they are small: no room for a reason */
    struct cofi__source *source = calloc(1, sizeof *source + (file ? COFI__WHY_BYTES : 0));
    if (!source)
        return NULL;
    source->kind = kind;
    source->why = file ? (char *)(source + 1) : NULL;
    source->path = strdup(path);
    if (!source->path) {
        free(source);
        return NULL;
    }
    pthread_mutex_init(&source->lock, NULL);
    return source;
}

/* What was asked for: cached files come later. */
struct wanted {
    const char *path, *file;
    uint8_t id[20];
    size_t id_size;
};

static bool same_file(const struct cofi__source *source, const struct wanted *w)
{
    const char *file = source->asked_file;
    return source->build_id_size == w->id_size && !memcmp(source->build_id, w->id, w->id_size) &&
           !strcmp(source->path, w->path) && !file == !w->file && (!file || !strcmp(file, w->file));
}

static size_t bucket_of(const char *path)
{
    uint32_t hash = 2166136261u;
    for (; *path; path++)
        hash = (hash ^ (uint8_t)*path) * 16777619u;
    return hash % BUCKETS;
}

static struct cofi__source *make_file(struct cofi__store *store, enum cofi__source_kind kind,
                                      const struct wanted *wanted)
{
    struct cofi__source *source = make_source(kind, wanted->path);
    if (!source)
        return NULL;
    source->store = store;
    memcpy(source->build_id, wanted->id, sizeof source->build_id);
    source->build_id_size = (uint8_t)wanted->id_size;
    if (wanted->file && !(source->asked_file = strdup(wanted->file))) {
        free_sources(source);
        return NULL;
    }
    return source;
}

static struct wanted want(const char *path, const char *file, const uint8_t *build_id, size_t build_id_size)
{
    struct wanted wanted = {.path = path, .file = file, .id_size = build_id_size < 20 ? build_id_size : 20};
    if (build_id_size)
        memcpy(wanted.id, build_id, wanted.id_size);
    return wanted;
}

struct cofi__source *cofi__store_file(struct cofi__store *store, const char *path, const char *file,
                                      const uint8_t *build_id, size_t build_id_size)
{
    struct wanted wanted = want(path, file, build_id, build_id_size);
    struct cofi__source **bucket = &store->files[bucket_of(path)];
    pthread_mutex_lock(&store->lock);
    struct cofi__source *source = *bucket;
    while (source && !same_file(source, &wanted))
        source = source->next;
    if (!source && (source = make_file(store, COFI__SOURCE_FILE, &wanted))) {
        source->next = *bucket;
        *bucket = source;
    }
    pthread_mutex_unlock(&store->lock);
    return source;
}

/* Whoever has its own bytes is looked for by nobody. */
static struct cofi__source *push_bytes(struct cofi__store *store, struct cofi__source *source)
{
    pthread_mutex_lock(&store->lock);
    source->next = store->bytes;
    store->bytes = source;
    pthread_mutex_unlock(&store->lock);
    return source;
}

struct cofi__source *cofi__store_module(struct cofi__store *store, const char *path, const char *file,
                                        const uint8_t *build_id, size_t build_id_size,
                                        const struct cofi__module *module)
{
    struct wanted wanted = want(path, file, build_id, build_id_size);
    struct cofi__source *source = make_file(store, COFI__SOURCE_MODULE, &wanted);
    if (!source)
        return NULL;
    source->module = module;
    return push_bytes(store, source);
}

struct cofi__source *cofi__store_bytes(struct cofi__store *store, const uint8_t *bytes, size_t n,
                                       const char *label, bool borrow)
{
    struct cofi__source *source = make_source(COFI__SOURCE_BYTES, label ? label : "[code]");
    uint8_t *copy = source && !borrow ? malloc(n ? n : 1) : NULL;
    if (!source || (!copy && !borrow)) {
        free_sources(source);
        return NULL;
    }
    if (copy && n)
        memcpy(copy, bytes, n);
    source->borrowed = borrow;
    source->bytes = borrow ? bytes : copy;
    source->size = n;
    atomic_init(&source->state, 1);
    return push_bytes(store, source);
}

/* What is read. */
const char *cofi__source_file(const struct cofi__source *source)
{
    return source->file ? source->file : source->asked_file ? source->asked_file : source->path;
}

/* What /proc shows has the time at which it was first looked at, and no size that stays. */
static uint64_t mtime_of(const struct cofi__source *source, const struct stat *st)
{
    if (!strncmp(cofi__source_file(source), "/proc/", 6))
        return 0;
    return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

/* Set the reason and give the status that says "no code". */
static int no_code(struct cofi__source *source, const char *reason)
{
    snprintf(source->why, COFI__WHY_BYTES, "%.300s: %s", cofi__source_file(source), reason);
    return COFI_ERR_NO_CODE;
}

static int no_memory(struct cofi__source *source)
{
    no_code(source, "out of memory");
    return COFI_ERR_NOMEM;
}

static bool names_deleted(const char *path)
{
    size_t n = strlen(path);
    return n > 10 && !strcmp(path + n - 10, " (deleted)");
}

/* [perf_event_open PERF_RECORD_MMAP2] */
bool cofi__names_memory(const char *path)
{
    return path[0] == '[' || !strncmp(path, "//anon", 6) || !strncmp(path, "/dev/zero", 9) ||
           !strncmp(path, "/SYSV", 5) || !strncmp(path, "/memfd:", 7) || !strncmp(path, "/anon_hugepage", 14);
}

/* What stands below /dev is a device, but for the files that programs put into their shared memory. */
static bool names_device(const char *path) { return !strncmp(path, "/dev/", 5) && strncmp(path, "/dev/shm/", 9) != 0; }

bool cofi__names_no_file(const char *path)
{
    return names_deleted(path) || cofi__names_memory(path) || path[0] != '/' || names_device(path);
}

static int open_fd(struct cofi__source *source, int *fd)
{
    struct stat st;
    if (source->file) {
        *fd = open(source->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        return *fd < 0 ? COFI_ERR_NO_CODE : 0;
    }
    if (source->path[0] == '[' && strstr(source->path, "]: ")) { /* a reason in place of a file */
        snprintf(source->why, COFI__WHY_BYTES, "%.390s", source->path);
        return COFI_ERR_NO_CODE;
    }
    if (!source->asked_file && (source->path[0] == '[' || !strncmp(source->path, "//anon", 6)))
        return no_code(source, "memory of no file, and its bytes are not in the recording");
    if (!stat(cofi__source_file(source), &st) && !S_ISREG(st.st_mode)) /* a device may act when it is opened */
        return no_code(source, "not a regular file");
    *fd = open(cofi__source_file(source), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd >= 0)
        return 0;
    int error = errno;
    if (names_deleted(source->path))
        return no_code(source, "the file was deleted when it was mapped");
    if (cofi__names_no_file(source->path) && source->path[0] == '/')
        return no_code(source, "memory of no file, and its bytes are not in the recording");
    return no_code(source, error == ENOENT ? "no such file" : strerror(error));
}

static int inspect(struct cofi__source *source, int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return no_code(source, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return no_code(source, "not a regular file");
    if (source->kind == COFI__SOURCE_MODULE)
        return cofi__module_load(source, fd);
    source->size = (uint64_t)st.st_size;
    source->dev = st.st_dev;
    source->ino = st.st_ino;
    source->mtime_ns = mtime_of(source, &st);
    source->windows = calloc(source->size / COFI__WINDOW + 1, sizeof *source->windows);
    if (!source->windows)
        return no_memory(source);
    return cofi__elf_inspect(source, fd);
}

static int open_path(struct cofi__source *source)
{
    int fd = -1, status = open_fd(source, &fd);
    if (!status)
        status = inspect(source, fd);
    if (fd >= 0)
        close(fd);
    return status;
}

/* What perf kept of the file when it recorded it, or null. */
static char *cached_file(const struct cofi__source *source)
{
    char hex[41] = "", *path = NULL;
    const char *home = getenv("HOME");
    for (size_t i = 0; i < source->build_id_size; i++)
        sprintf(hex + 2 * i, "%02x", source->build_id[i]);
    if (!home || strlen(hex) < 4 || asprintf(&path, "%s/.debug/.build-id/%.2s/%s/elf", home, hex, hex + 2) < 0)
        return NULL;
    return path;
}

/* The file is gone, or another one: take the one of the same build id from perf's cache, if it is there. */
static int open_cached(struct cofi__source *source, int status)
{
    char why[COFI__WHY_BYTES];
    free(source->windows);
    free(source->loads);
    source->windows = NULL;
    source->loads = NULL;
    source->n_loads = 0;
    memcpy(why, source->why, sizeof why);
    source->file = cached_file(source);
    if (source->file && open_path(source) == 0)
        return 0;
    free(source->file);
    source->file = NULL;
    memcpy(source->why, why, sizeof why);
    return status;
}

int cofi__source_open(struct cofi__source *source)
{
    int state = atomic_load_explicit(&source->state, memory_order_acquire);
    if (state)
        return state < 0 ? state : 0;
    pthread_mutex_lock(&source->lock);
    state = atomic_load(&source->state);
    if (!state) {
        state = open_path(source);
        if (state < 0)
            state = open_cached(source, state);
        if (!state)
            state = 1;
        atomic_store_explicit(&source->state, state, memory_order_release);
    }
    pthread_mutex_unlock(&source->lock);
    return state < 0 ? state : 0;
}

static int pread_all(int fd, uint8_t *out, size_t n, uint64_t offset)
{
    while (n) {
        ssize_t got = pread(fd, out, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        out += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

static size_t window_bytes(const struct cofi__source *source, size_t index)
{
    uint64_t left = source->size - (uint64_t)index * COFI__WINDOW;
    return left < COFI__WINDOW + COFI__OVERLAP ? (size_t)left : COFI__WINDOW + COFI__OVERLAP;
}

/* source->lock is held. */
static int take_fd(const struct cofi__source *source)
{
    return source->is_open ? source->fd : open(cofi__source_file(source), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static void leave_fd(struct cofi__source *source, int fd)
{
    if (source->is_open)
        return;
    source->is_open = atomic_fetch_add(&files_open, 1) < COFI__FILES_OPEN;
    source->fd = fd;
    if (!source->is_open) {
        atomic_fetch_sub(&files_open, 1);
        close(fd);
    }
}

static uint8_t *keep_window(struct cofi__store *store, const uint8_t *bytes, size_t n)
{
    pthread_mutex_lock(&store->lock);
    uint8_t *at = cofi__room_take(&store->windows, n);
    pthread_mutex_unlock(&store->lock);
    return at ? memcpy(at, bytes, n) : NULL;
}

/* Read one window; source->lock is held. 0, or COFI_ERR_NO_CODE or COFI_ERR_NOMEM with source->why. */
static int load_window(struct cofi__source *source, size_t index, uint8_t **out)
{
    struct stat st;
    uint8_t bytes[COFI__WINDOW + COFI__OVERLAP];
    size_t n = window_bytes(source, index);
    int status = 0, fd = take_fd(source);
    if (fd < 0)
        return no_code(source, strerror(errno));
    if (fstat(fd, &st) || st.st_dev != source->dev || st.st_ino != source->ino ||
        (uint64_t)st.st_size != source->size || mtime_of(source, &st) != source->mtime_ns) {
        status = no_code(source, "the file changed while it was read");
    } else if (pread_all(fd, bytes, n, (uint64_t)index * COFI__WINDOW)) {
        status = no_code(source, "cannot be read to its end");
    } else if (!(*out = keep_window(source->store, bytes, n))) {
        status = no_memory(source);
    }
    leave_fd(source, fd);
    return status;
}

static int read_file(struct cofi__source *source, uint64_t offset, const uint8_t **bytes,
                     uint64_t *start, uint64_t *end, char *why, size_t size)
{
    size_t index = (size_t)(offset / COFI__WINDOW);
    int status = 0;
    uint8_t *window = atomic_load_explicit(&source->windows[index], memory_order_acquire);
    if (!window) {
        pthread_mutex_lock(&source->lock);
        window = atomic_load(&source->windows[index]);
        if (!window) {
            status = load_window(source, index, &window);
            if (status < 0)
                snprintf(why, size, "%s", source->why);
            atomic_store_explicit(&source->windows[index], window, memory_order_release);
        }
        pthread_mutex_unlock(&source->lock);
    }
    if (status < 0)
        return status;
    *bytes = window;
    *start = (uint64_t)index * COFI__WINDOW;
    *end = *start + window_bytes(source, index);
    return 0;
}

int cofi__source_read(struct cofi__source *source, uint64_t offset, const uint8_t **bytes,
                      uint64_t *start, uint64_t *end, char *why, size_t size)
{
    int status = cofi__source_open(source);
    if (status < 0) {
        snprintf(why, size, "%s", source->why);
        return status;
    }
    if (offset >= source->size) {
        snprintf(why, size, "%.300s: the mapping reaches beyond the file's end", source->path);
        return COFI_ERR_NO_CODE;
    }
    if (source->kind == COFI__SOURCE_FILE)
        return read_file(source, offset, bytes, start, end, why, size);
    *bytes = source->bytes;
    *start = 0;
    *end = source->size;
    return 0;
}

/* How well a part explains that code lies at an offset of its file; 0: not at all. A page that is mapped
 * shows all of the file's page, which may end one part and hold, or begin, others (as lld and mold lay
 * them out): code belongs to one that is executable. */
static unsigned explains(const struct cofi__load *load, uint64_t offset)
{
    uint64_t page = load->offset & ~UINT64_C(0xfff);
    if (offset < page || offset >= load->offset + load->filesz)
        return 0;
    return 1 + (offset >= load->offset) + 2 * load->executable;
}

uint64_t cofi__source_vaddr(struct cofi__source *source, uint64_t offset)
{
    const struct cofi__load *best = NULL;
    for (size_t i = 0; i < source->n_loads; i++) {
        const struct cofi__load *load = &source->loads[i];
        unsigned fits = explains(load, offset), best_fits = best ? explains(best, offset) : 1;
        if (fits > best_fits || (fits == best_fits && (!best || load->offset >= best->offset)))
            best = load;
    }
    return best ? best->vaddr - best->offset + offset : offset;
}

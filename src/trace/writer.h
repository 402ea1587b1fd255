/* SPDX-License-Identifier: MIT
 * The inside of a writer. */
#ifndef COFI_TRACE_WRITER_H
#define COFI_TRACE_WRITER_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include <cofi/trace.h>

/* A growing run of bytes. `failed` sticks once memory is out, so that callers check once at the end. */
struct cofi__buffer {
    uint8_t *bytes;
    size_t n, room;
    bool failed;
};

void cofi__buffer_put(struct cofi__buffer *buffer, const void *bytes, size_t n);
void cofi__buffer_put_le(struct cofi__buffer *buffer, uint64_t value, size_t n);
void cofi__buffer_zero(struct cofi__buffer *buffer, size_t n);
void cofi__buffer_fini(struct cofi__buffer *buffer);

/* One thread's trace bytes on their way. Order of locks: stream before writer. */
struct cofi__out_stream {
    pthread_mutex_t lock;
    struct cofi__out_stream *next;      /* of all, newest first; fixed once linked */
    struct cofi__out_stream *next_hash; /* writer->lock */
    int32_t pid, tid;
    uint32_t idx;
    uint8_t *bytes; /* lock */
    size_t n, room;
    uint64_t offset;    /* of bytes[0] in the stream */
    uint64_t reference; /* TSC at or before bytes[0] */
};

/* Build ids seen, for MMAP2 and the BUILD_ID feature. */
struct cofi__build_id {
    struct cofi__build_id *next;
    uint64_t dev, ino, mtime_ns;
    uint8_t id[20], size;
    bool class32; /* an ELF of 32-bit code */
    char path[];
};

enum { OUT_BUCKETS = 1024, BUILD_ID_BUCKETS = 256 };

struct cofi_writer {
    int fd;
    char *path; /* absolute: MMAP2 records of code name it */
    char *place;  /* the file's own, once the recording has begun */
    char *beside; /* its name until then; null: it is in its place */
    bool made;    /* there it is new, and the recording has not begun */
    struct cofi_recording_info info;
    char *filter, *command, *vendor;
    pthread_mutex_t lock; /* holds what follows */
    pthread_cond_t idle;
    uint64_t data_start, end; /* file offsets; end: where the next record goes */
    uint64_t reserved;        /* of the file, blocks up to here; UINT64_MAX: none are to be had */
    uint64_t bad;             /* lowest offset that could not be written */
    unsigned in_flight;       /* writes under way outside of the lock */
    bool features;            /* the file ends with valid feature sections */
    int status;               /* first error of its life */
    struct cofi_error error;
    struct cofi__buffer sideband; /* lies at `end` in the file */
    struct cofi__buffer index;    /* of AUXTRACE records, as the feature has it */
    struct cofi__out_stream *hash[OUT_BUCKETS];
    _Atomic(struct cofi__out_stream *) streams;
    uint32_t n_streams;
    _Atomic size_t buffered; /* bytes of room in all streams' buffers */
    struct cofi__build_id *build_ids[BUILD_ID_BUCKETS];
    uint64_t first_ns, last_ns, round_ns;
    struct cofi__known_code *known; /* null: none yet */
    struct cofi__deflate *deflate; /* compressed: offsets are of the unpacked file, written in order */
};

/* deflate.c: a zstd stream into a file. Its first n bytes are a frame of their own that holds them as they
 * are, so that they can be changed later. Errors: -errno. */
struct cofi__deflate;
int cofi__deflate_open(struct cofi__deflate **deflate, int fd, const uint8_t *bytes, size_t n);
int cofi__deflate_patch(struct cofi__deflate *deflate, const uint8_t *bytes, size_t n);
int cofi__deflate_write(struct cofi__deflate *deflate, const struct iovec *parts, int n);
/* Everything so far can be read from the file; `last`: the stream is complete. */
int cofi__deflate_flush(struct cofi__deflate *deflate, bool last);
void cofi__deflate_close(struct cofi__deflate *deflate);

/* writer_place.c */

/* Make the file. Returns 0 or -errno. */
int cofi__writer_create(struct cofi_writer *writer, const char *path);
/* Locked: the recording begins, so its file comes to its place. */
int cofi__writer_settle(struct cofi_writer *writer);
/* It never did: its file goes, what was there before stays. */
void cofi__writer_withdraw(struct cofi_writer *writer);

/* writer_file.c; the writer is locked. */
int cofi__writer_header(struct cofi_writer *writer, uint64_t data_end, const uint8_t features[32]);
int cofi__writer_drain(struct cofi_writer *writer);
int cofi__writer_put(struct cofi_writer *writer, const struct iovec *parts, int n);
int cofi__writer_failed(struct cofi_writer *writer, int code, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What an errno of writing is. */
static inline int writer_code(int error) { return error == ENOMEM ? COFI_ERR_NOMEM : COFI_ERR_IO; }

/* writer_records.c; the writer is locked. */
int cofi__writer_prologue(struct cofi_writer *writer);
int cofi__writer_record(struct cofi_writer *writer, const struct cofi_sideband *sideband);

/* Locked: wait for writes under way, then make the file complete as of now. */
int cofi__writer_complete(struct cofi_writer *writer, bool last);

/* known_code.c; the writer is locked. Where the file has these bytes already, 0: not known; and that it
 * will have them at `at`. */
uint64_t cofi__known_code_find(const struct cofi_writer *writer, const uint8_t *bytes, size_t n);
void cofi__known_code_add(struct cofi_writer *writer, const uint8_t *bytes, size_t n, uint64_t at);

/* writer_features.c; the writer is locked, all else is written. */
int cofi__writer_features(struct cofi_writer *writer);
void cofi__writer_attr(uint8_t *attr, const struct cofi_recording_info *info, bool sideband);

/* build_id.c: the entry for a file, read at the first question; null: no such file or no memory. */
const struct cofi__build_id *cofi__writer_build_id(struct cofi_writer *writer, const char *path);
void cofi__writer_build_ids_free(struct cofi_writer *writer);

#endif

/* SPDX-License-Identifier: MIT
 * The inside of a recording that is read. */
#ifndef COFI_TRACE_READER_H
#define COFI_TRACE_READER_H

#include <cofi/trace.h>

#include "base/map.h"
#include "trace/kernel_names.h"
#include "trace/modules.h"

/* The file: read into memory if it is small, else mapped. A pipe is spooled first. */
struct cofi__input {
    const uint8_t *bytes;
    uint64_t n;            /* of the first file */
    bool mapped;
    bool unpacked;         /* by us: it was compressed by zstd */
    const char *damage;    /* why not to the end: static; or null */
    uint64_t damage_at;    /* offset in the compressed file */
    uint64_t mapped_bytes;
    char *directory; /* of a perf.data directory (perf record --kcore, --threads), or null */
    /* --threads: behind the file `data`, which has the header, the files data.0, data.1 … of each thread's records. */
    struct cofi__part *parts;
    size_t n_parts;
};

/* Bytes [start, end) of the input are one file's records. */
struct cofi__part {
    uint64_t start, end;
};

int cofi__input_open(struct cofi__input *input, const char *path, struct cofi_error *error);
void cofi__input_close(struct cofi__input *input);
/* Give back the memory that shows [start, end), if the file is mapped; looking there reads it again. */
void cofi__input_unneeded(const struct cofi__input *input, uint64_t start, uint64_t end);

/* Strings and bytes that live as long as the recording. */
struct cofi__keep {
    struct cofi__keep_block *blocks;
    bool failed; /* sticks */
};
void *cofi__keep_alloc(struct cofi__keep *keep, size_t n);
/* A string of at most n bytes, which need not end in NUL. Null: out of memory. */
char *cofi__keep_string(struct cofi__keep *keep, const uint8_t *bytes, size_t n);
void cofi__keep_free(struct cofi__keep *keep);

/* An array that grows; `failed` sticks. */
struct cofi__vector {
    void *items;
    size_t n, room, item_bytes;
    bool failed;
};
/* One more item, zeroed; null: out of memory. */
void *cofi__vector_push(struct cofi__vector *array);
#define COFI__VECTOR_OF(type) {NULL, 0, 0, sizeof(type), false}

struct cofi__event_attr {
    uint32_t type;
    uint64_t config, sample_type, flags;
    uint64_t read_format, branch_type, regs_user, regs_intr; /* what the size of a sample depends on */
};

/* Tables of which a row is looked for by a number. */
enum cofi__row_kind {
    ROW_OF_EVENT, ROW_OF_GUEST_EVENT, ROW_OF_MACHINE, ROW_OF_PROCESSOR, ROW_OF_VCPU, ROW_OF_VCPU_THREAD, ROW_OF_BUFFER
};

struct cofi__piece {
    uint64_t stream_offset, file_offset, bytes, reference;
    const uint8_t *memory; /* bytes that were compressed in the file, at file_offset; null: the file's */
};

struct cofi__in_stream {
    struct cofi_recording_stream public;
    struct cofi__vector pieces; /* struct cofi__piece */
    uint32_t idx;
    struct cofi__piece shown; /* the last snapshot in it, whole */
    uint64_t raw_begin, raw_end; /* in the buffer's own count; where the next piece must start to follow
                                  * without a break */
    struct cofi__vector breaks; /* uint64_t, see cofi_recording_breaks */
    size_t records; /* of sideband that stand before its first piece */
    size_t next_hash; /* index + 1, 0: none */
    size_t next_of_buffer; /* the same, once all are there */
    struct cofi__vector bounds; /* struct cofi_time_bound, once they were asked for */
    bool bounded;
};

/* An event of a guest [linux: perf_event__synthesize_id_index]. */
struct cofi__guest_id {
    int32_t machine, vcpu, tid; /* tid: the host's thread that is this vcpu */
};

struct cofi__build_id_row {
    const char *path;
    size_t order; /* as they were told: of two that fit, the first one counts */
    int32_t pid;
    bool guest;
    uint8_t id[20], size;
};

/* How tables of what is known of threads are ordered; their rows begin with it. */
struct cofi__thread_key {
    int32_t tid;
    uint64_t since; /* a time in ns, or the number of a record */
    size_t order;   /* of what is equal up to here */
};
/* For qsort. */
int cofi__thread_compare(const void *a, const void *b);
/* The first row above (tid, since). */
size_t cofi__thread_above(const struct cofi__vector *table, int32_t tid, uint64_t since);

/* A record tells which process a thread is of. */
struct cofi__thread_row {
    struct cofi__thread_key at; /* since: how many records there are up to this one */
    int32_t pid;
};
/* threads.c: what the sideband, as it is ordered now, tells of threads' processes; the items are to be
 * freed. 0 or COFI_ERR_NOMEM. */
int cofi__list_threads(const struct cofi_recording *recording, struct cofi__vector *threads);
/* The process of a thread behind so many records: by the last one of them that tells it, else by the
 * first one after them, else the thread's own number. */
int32_t cofi__pid_of(const struct cofi__vector *threads, int32_t tid, size_t records);

struct cofi__comm {
    struct cofi__thread_key at;
    const char *name;
};

struct cofi__ksymbol {
    uint64_t addr, size;
    const char *name;
};

/* The host, or a guest. */
struct cofi__machine {
    int32_t pid; /* of its hypervisor; 0: the host; -1: guests that the recording does not tell apart */
    struct cofi_image *kernel;
    bool kcore_tried, kcore;
    char *proc_modules; /* what /proc/modules said when the kcore was taken, or null */
    struct cofi__modules *modules; /* those that are read from their files, or null */
};
enum { HOST = 0, SOME_GUEST = -1 };

/* Its directory below --guestmount: as perf numbers guests, of which the one that has no number is 0. */
static inline int32_t guest_number(int32_t machine) { return machine > 0 ? machine : 0; }

/* A function that the kernel compiled from BPF. */
struct cofi__bpf {
    uint64_t addr;
    uint32_t size;
    const uint8_t *bytes; /* in the file */
    const char *name;
};

struct cofi__process {
    int32_t machine, pid;
    struct cofi_image *image;
    struct cofi__table *now; /* what it shows at its latest fork, kept while the images are built */
    size_t next_hash; /* index + 1 */
};

/* A thread had its turn on a processor. */
struct cofi__turn_row {
    uint64_t time_ns;
    int32_t pid, tid;
};

struct cofi__processor {
    struct cofi__vector turns; /* struct cofi__turn_row, by time */
    bool switched;             /* switches tell them, not only where tracing began */
    struct cofi_image *image;  /* that of whoever has the turn */
    struct cofi_image *guest;  /* and of its guest */
};

/* A guest's processor. */
struct cofi__vcpu {
    int32_t machine, vcpu;
    int32_t tid;               /* the host's thread that it is; -1: not told */
    struct cofi__vector turns; /* struct cofi__turn_row, of the guest's processes */
    struct cofi_image *image;  /* what it shows, for streams of that thread; null: no such stream */
};

enum { IN_BUCKETS = 4096, WARNINGS_MAX = 64 };

struct cofi_recording {
    struct cofi__input in;
    struct cofi_recording_info info;
    struct cofi__keep keep;
    struct cofi__vector warnings;  /* char * */
    struct cofi__vector attrs;     /* struct cofi__event_attr */
    size_t n_ids;                  /* of events */
    struct cofi__map rows;         /* a number, of which table (enum cofi__row_kind) -> the row there */
    struct cofi__vector guest_ids; /* struct cofi__guest_id */
    struct cofi__vector vcpus;     /* struct cofi__vcpu */
    struct cofi_image *no_guest;   /* says that the recording does not have it */
    uint64_t switch_event;         /* the number of sched:sched_switch */
    uint32_t switch_offset;        /* of next_pid in its bytes; 0: the recording does not know the event */
    uint64_t lost_samples;         /* of events whose samples are looked at */
    struct cofi__vector sideband;  /* struct cofi_sideband */
    struct cofi__map codes;        /* where code's bytes lie in the file, as its mappings say -> its row
                                    * of sideband, while records are read */
    struct {
        const uint8_t *bytes;
        uint64_t addr, n;
        int32_t pid;
    } vdso;                        /* the last one that was joined, and whose it was */
    struct cofi__vector streams;   /* struct cofi__in_stream */
    size_t stream_hash[IN_BUCKETS];
    struct cofi__vector build_ids; /* struct cofi__build_id_row; by path once all are there */
    struct cofi__vector comms;     /* struct cofi__comm, by tid and time */
    struct cofi__vector processes; /* struct cofi__process */
    size_t process_hash[IN_BUCKETS];
    struct cofi__vector ksymbols;  /* struct cofi__ksymbol */
    struct cofi__vector bpf;       /* struct cofi__bpf */
    struct cofi__vector processors; /* struct cofi__processor */
    struct cofi__store *store;
    struct cofi__vector machines;  /* struct cofi__machine *; the first is the host */
    struct cofi_recording_options options; /* while it is opened */
    const char *symfs;                     /* theirs, kept; or null */
    const char *osrelease;
    const char *other_trace;               /* the name of the one that the recording says it has, or null */
    uint64_t forked;                       /* mappings that forks have given to children */
    bool has_info, nomem, sampled, damaged;
    bool tells_code; /* of processes, more than the vDSO */
    bool own; /* cofi made it: a piece's reference is a time at or before its first byte, perf's is one
               * behind its last */
    uint64_t missing; /* trace bytes that pieces should have */
    struct cofi__inflate *inflate;
};

/* "…, at 0x…": kept up to WARNINGS_MAX. */
void cofi__warn(struct cofi_recording *recording, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same of what the file should have, and has not. */
#define cofi__damage(recording, ...) ((recording)->damaged = true, cofi__warn((recording), __VA_ARGS__))

/* The row of a table that has a number, or null. */
static inline const uint32_t *cofi__row(const struct cofi_recording *recording, enum cofi__row_kind kind,
                                        uint64_t number)
{
    return cofi__map_get(&recording->rows, number, kind);
}
static inline void cofi__put_row(struct cofi_recording *recording, enum cofi__row_kind kind, uint64_t number,
                                 size_t row)
{
    recording->nomem |= cofi__map_put(&recording->rows, number, kind, (uint32_t)row) < 0;
}

/* header.c: the file's header, attributes and features. Sets where the data are. */
int cofi__read_header(struct cofi_recording *recording, uint64_t *data_start, uint64_t *data_end,
                      bool *unclosed, struct cofi_error *error);
void cofi__read_attr(struct cofi_recording *recording, const uint8_t *attr, uint64_t n);
void cofi__add_id(struct cofi_recording *recording, uint64_t id, size_t attr);
void cofi__read_feature(struct cofi_recording *recording, unsigned feature, const uint8_t *bytes, uint64_t n);
void cofi__read_build_ids(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n);

/* The event of an identifier, or the first one. Null: there is none. */
const struct cofi__event_attr *cofi__event_of_id(struct cofi_recording *recording, uint64_t id);
/* The event a record, but no sample, belongs to: by the identifier at its end, if events have one. */
const struct cofi__event_attr *cofi__event_of_record(struct cofi_recording *recording, const uint8_t *record, size_t n);

/* sample.c: a SAMPLE record -> the trace bytes in it (perf record --aux-sample), who runs from it on (sched_switch).
 * at, copied: as cofi__read_record. */
void cofi__read_lost_samples(struct cofi_recording *recording, const uint8_t *record, size_t n);
void cofi__read_sample(struct cofi_recording *recording, const uint8_t *record, size_t n, uint64_t at, bool copied);

/* tracepoint.c: which event sched_switch is, and what a sample of it tells. */
struct cofi__switch {
    uint32_t cpu;
    int32_t pid, tid; /* who ran before */
    uint64_t time_ns;
};
void cofi__read_tracing_data(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n);
void cofi__read_event_desc(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n);
bool cofi__is_switch(const struct cofi_recording *recording, const struct cofi__event_attr *attr);
void cofi__add_switch(struct cofi_recording *recording, const struct cofi__switch *s, const uint8_t *raw, size_t n);

/* records.c: all records of [start, end). */
void cofi__read_records(struct cofi_recording *recording, uint64_t start, uint64_t end, bool unclosed);
/* One record of n bytes; at: its place in the file, for messages, or of the compressed record it was in.
 * copied: its bytes do not stay. */
void cofi__read_record(struct cofi_recording *recording, const uint8_t *record, size_t n, uint64_t at,
                       bool copied);

/* sideband.c: a kernel record -> sideband; false if it is none that is kept. */
bool cofi__read_sideband(struct cofi_recording *recording, const uint8_t *record, size_t n, uint64_t at,
                         bool copied, struct cofi_sideband *sideband);

/* sideband.c, once all records are read: the bytes of code whose bytes other records have. */
void cofi__find_codes(struct cofi_recording *recording);
/* sideband.c: a name for code that the kernel made (BPF programs, trampolines). */
void cofi__read_ksymbol(struct cofi_recording *recording, const uint8_t *record, size_t n);

/* bpf.c: the programs in the header; once there are images, the kernel's code. 0 or COFI_ERR_NOMEM. */
void cofi__read_bpf(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n);
int cofi__map_bpf(struct cofi_recording *recording);

/* auxtrace.c */
void cofi__read_auxtrace_info(struct cofi_recording *recording, const uint8_t *record, size_t n);
void cofi__read_auxtrace(struct cofi_recording *recording, const uint8_t *record, uint64_t at, uint64_t bytes);
/* Trace bytes of a sample: a stream of their own, of one piece (its stream_offset is not read). */
void cofi__add_sample(struct cofi_recording *recording, int32_t tid, int32_t cpu, const struct cofi__piece *piece);
static inline const uint8_t *cofi__piece_bytes(const struct cofi_recording *recording, const struct cofi__piece *piece)
{
    return piece->memory ? piece->memory : recording->in.bytes + piece->file_offset;
}
void cofi__finish_streams(struct cofi_recording *recording);

/* inflate.c: a COMPRESSED record's body; the records in it are read. */
void cofi__read_compressed(struct cofi_recording *recording, const uint8_t *bytes, size_t n, uint64_t at);
void cofi__inflate_close(struct cofi__inflate *inflate);

/* process.c: sideband in order -> images and names. */
int cofi__build_processes(struct cofi_recording *recording);

/* processor.c: switches -> who ran where, for streams that belong to processors. */
int cofi__build_processors(struct cofi_recording *recording);
void cofi__processors_free(struct cofi_recording *recording);

/* process.c: the machine of a hypervisor's pid, made at the first question. Null: out of memory. */
struct cofi__machine *cofi__machine(struct cofi_recording *recording, int32_t pid);
struct cofi_image *cofi__process_image(struct cofi_recording *recording, int32_t machine, int32_t pid);
static inline struct cofi_image *cofi__host_kernel(const struct cofi_recording *recording)
{
    return (*(struct cofi__machine **)recording->machines.items)->kernel;
}

/* sideband.c: an ID_INDEX: events of guests. */
void cofi__read_id_index(struct cofi_recording *recording, const uint8_t *record, size_t n);

/* processor.c: the row of a processor that has a stream, or null. */
struct cofi__processor *cofi__processor(const struct cofi_recording *recording, int32_t cpu);

/* processor.c: who runs from this record on; false: it does not tell. */
bool cofi__who_runs(const struct cofi_sideband *sb, int32_t *pid, int32_t *tid);

/* guest.c: what streams show while a guest runs. After the processors. */
int cofi__build_guests(struct cofi_recording *recording);
void cofi__guests_free(struct cofi_recording *recording);

/* kernel.c: what a kernel's mappings and the vDSO show. */
void cofi__map_kernel(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map);
/* Below --symfs, or as it is; to be freed, null: out of memory. */
char *cofi__below_symfs(const struct cofi_recording *recording, const char *path);
/* perf's name for a kernel is [kernel.kallsyms] with a symbol behind it, whose address is in pgoff. */
const char *cofi__reference_symbol(const struct cofi_sideband *map);

/* kcore.c: a kernel as it was in memory, modules and patched code included. False: there is none that is proven to be
 * the recorded one. */
bool cofi__map_kcore(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map);
/* Give a kernel's functions the names of a kallsyms, which lay `slide` lower when that was made
 * (modules, another boot's, not then). */
void cofi__name_kernel(struct cofi_recording *recording, struct cofi__machine *machine, const char *kallsyms,
                       uint64_t slide);
/* Whether the kcore shows a module where the recording has it. */
bool cofi__kcore_has_module(const struct cofi__machine *machine, const struct cofi_sideband *map);
/* A 64-bit program's is above; perf's table of build ids has a 32-bit one as [vdso32]. */
bool cofi__is_vdso32(const struct cofi_sideband *map);
/* The pages of this process's own vDSO (its one loadable part starts at offset 0); 0: it is null, or another
 * processor's, and no code. */
uint64_t cofi__vdso_bytes(const uint8_t *own);
int cofi__map_vdso(struct cofi_recording *recording, struct cofi_image *image, const struct cofi_sideband *map);
/* A CODE of the vDSO, record i: where it is the first of the pieces that the vDSO was told in, all of it (an
 * ELF then, which has names), in keep; or the piece itself. False: a piece of one that was given whole. */
bool cofi__join_vdso(struct cofi_recording *recording, size_t i, const uint8_t **bytes, uint64_t *n);

/* jitdump.c: a mapping of a jit-PID.dump, and when that was (0: before the recording): the code it tells of; and
 * what /tmp/perf-PID.map calls the code of a process. 0 or COFI_ERR_NOMEM; a file that is damaged is a warning. */
#define COFI__JIT_MAGIC 0x4a695444u /* its first word */
bool cofi__is_jitdump(const char *path);
int cofi__map_jitdump(struct cofi_recording *recording, struct cofi_image *image, const char *path, uint64_t mapped_ns);
int cofi__name_jit_code(const struct cofi_recording *recording, struct cofi_image *image, int32_t pid);
/* The latter's name, and where it is (allocated, or null: out of memory). Returns it open, or -1: there
 * is none, or somebody else wrote it. */
enum { COFI__PERF_MAP_PATH = 32 };
int cofi__perf_map_open(const struct cofi_recording *recording, int32_t pid, char path[COFI__PERF_MAP_PATH],
                        char **found);

#endif

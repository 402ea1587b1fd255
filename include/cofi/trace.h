/* SPDX-License-Identifier: MIT
 * The recording: a perf.data file of either generation, written and read. */
#ifndef COFI_TRACE_H
#define COFI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/error.h>
#include <cofi/image.h>
#include <cofi/packet.h>
#include <cofi/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sideband: what decoding needs beside the trace. Kinds are perf's records; CODE is
 * bytes that no file holds. Strings and bytes belong to the caller and are copied. */
enum cofi_sideband_kind {
    COFI_SB_COMM,         /* name; exec */
    COFI_SB_MMAP,         /* addr, len, pgoff, prot, flags, name, build_id */
    COFI_SB_FORK,         /* pid, tid: the child; ppid, ptid: its parent; exec */
    COFI_SB_EXIT,
    COFI_SB_ITRACE_START,
    COFI_SB_SWITCH,       /* out, preempt */
    COFI_SB_SWITCH_CPU,   /* cpu-wide: out, ppid/ptid: next or previous */
    COFI_SB_AUX,          /* aux_offset, aux_size, aux_flags */
    COFI_SB_LOST,         /* len: how many records perf lost */
    COFI_SB_CODE,         /* addr, bytes, len, ahead: from time on, these bytes are there */
    COFI_SB_TEXT_POKE     /* kernel code changed: addr, bytes, len */
};

struct cofi_sideband {
    uint8_t kind;     /* enum cofi_sideband_kind */
    bool exec;        /* COMM: by exec, so the address space is new; FORK: it was by the
                       * time this was told, so the child has none of its parent's */
    bool out;         /* SWITCH */
    bool preempt;
    bool kernel;      /* MMAP, CODE: kernel address space */
    uint32_t cpu;     /* UINT32_MAX: none */
    int32_t pid, tid, ppid, ptid;
    uint64_t time_ns; /* perf time: the recording's clock, see struct cofi_time_conv */
    uint64_t addr, len, pgoff;
    uint32_t prot, flags;
    const char *name;
    const uint8_t *bytes;
    uint8_t build_id[20], build_id_size; /* MMAP, written: 0: the file's, which is read;
                                          * COFI_NO_BUILD_ID: none, and no file is looked at */
    uint64_t aux_offset, aux_size, aux_flags;
    int32_t machine;  /* whose pids and addresses these are: 0: the host's; else
                       * those of the guest whose hypervisor has this pid, -1: of one
                       * that is not told (perf kvm, perf inject --guest-data) */
    int32_t vcpu;     /* with machine: the guest's processor, -1: not told */
    uint64_t ahead;   /* CODE: how many bytes behind these `len` are in `bytes`, too,
                       * of which COFI_CODE_AHEAD are of use */
};

enum { COFI_NO_BUILD_ID = 255 };

/* perf reads as many bytes at an instruction's place in a file, wherever the mapping ends. */
enum { COFI_CODE_AHEAD = 16 };

enum { COFI_INFO_RANGES_MAX = 4 };

/* What a recording says of itself. */
struct cofi_recording_info {
    size_t size;                  /* sizeof(struct cofi_recording_info) */
    enum cofi_gen gen;
    uint64_t config;              /* PT: IA32_RTIT_CTL as traced; RTIT: RTIT_CTL */
    struct cofi_time_info time;
    uint32_t family, model, stepping; /* of the traced processor; family 0: unknown */
    /* The filters, as struct cofi_flow_config has them (RTIT: two), and the CR3 that
     * CR3_MATCH held. PT: not known where ranges followed files; then `filter` tells. */
    bool ranges_known;
    uint64_t range_base[COFI_INFO_RANGES_MAX], range_limit[COFI_INFO_RANGES_MAX], cr3_match;
    uint32_t events;
    const char *vendor;           /* "GenuineIntel"; null: unknown */
    const char *filter;           /* perf's address filter string, or null */
    const char *command;          /* command line that was recorded, or null */
    bool snapshot;                /* buffers were circular: their oldest bytes are lost */
    bool per_cpu;                 /* streams belong to processors, not to threads */
};

/* ---- writing ---- */

struct cofi_writer;

/* Create a recording at path (a file's, also "-", for it is seeked). A name that ends in .zst
 * makes a compressed one, with zstd: cofi opens it as it is, perf after `zstd -d` (in the same
 * directory, so that it finds the code inside). A regular file of that name is replaced, not
 * overwritten: who reads the old one keeps it. That is done when the recording begins: with the
 * first ITRACE_START or trace, a flush or the close; until then the new file has a name of its own
 * beside it (where its folder takes no other file, the old one is overwritten at once). Strings of
 * *info are copied. Errors: COFI_ERR_IO, COFI_ERR_PERMISSION, COFI_ERR_NOMEM, with *error saying
 * which path and what to do; before anything is created COFI_ERR_RANGE (gen is none, impossible
 * size), COFI_ERR_UNSUPPORTED (a member that only a newer library knows is set). */
int cofi_writer_open(struct cofi_writer **writer, const char *path,
                     const struct cofi_recording_info *info, struct cofi_error *error);
/* Append one sideband record, or trace bytes of the thread's stream (buffered; order between
 * calls for the same stream is kept; reference_tsc is a TSC value at or before the first
 * byte). Each call's bytes are whole packets: pieces are cut between calls only, because perf
 * cannot join a packet that is cut. A CODE record is written so that perf finds the bytes too
 * (64-bit code: perf takes what is no ELF for that); longer than 60 KiB it comes back as
 * several. An MMAP without a build id gets its file's. AUX records are added for the trace
 * pieces. Where the info says per_cpu, tid is the processor of whose stream the bytes are. A
 * FORK of a thread number that had a stream begins a new one. Thread safe. Errors: COFI_ERR_IO
 * (disk full: what was written before stays readable), COFI_ERR_NOMEM, COFI_ERR_RANGE (a name
 * of 4 KiB or more, no such kind or build id, bytes that are none or wrap around the address
 * space; nothing was written). Cost: a copy; a write of the file each 256 KiB a thread. */
int cofi_writer_sideband(struct cofi_writer *writer, const struct cofi_sideband *sideband);
int cofi_writer_trace(struct cofi_writer *writer, int32_t pid, int32_t tid, const uint8_t *bytes,
                      size_t n, uint64_t reference_tsc);
/* Nothing is expected of a thread for now: what is buffered of its trace is written,
 * and its buffer given back; its stream goes on with what comes later. A thread
 * without a stream has none. Errors: as above. */
int cofi_writer_idle(struct cofi_writer *writer, int32_t tid);
/* A thread's trace is complete: what comes by its number from now on is another
 * thread's, in a stream of its own. For who tells FORK long before the trace; else
 * that is enough. A thread without a stream is none to end. Errors: as above. */
int cofi_writer_end(struct cofi_writer *writer, int32_t tid);
/* Write what is buffered and the header, so that the file is complete as of now (also called while
 * recording, so that a crash of the recorder loses little). */
int cofi_writer_flush(struct cofi_writer *writer);
/* Flush and release. Returns the first error of the writer's life. Null: nothing. */
int cofi_writer_close(struct cofi_writer *writer, struct cofi_error *error);
/* Release. A recording that has not begun leaves no file, and what was there before
 * stays; one that has is closed. Null: nothing. */
int cofi_writer_discard(struct cofi_writer *writer, struct cofi_error *error);

/* ---- reading ---- */

struct cofi_recording;

/* Open a recording: perf.data of perf (seekable, from a pipe, or a directory) or of cofi; "-"
 * is standard input (a pipe is copied to an unnamed file first). Truncated and damaged files
 * too: what is there is read, and cofi_recording_warning tells. A zstd stream of one is
 * unpacked first. Sideband is read at once, trace bytes stay in the file (up to 16 MiB in
 * memory, larger ones mapped: who truncates such a file while it is open stops its reader).
 * Errors: COFI_ERR_IO, COFI_ERR_PERMISSION, COFI_ERR_NOMEM, COFI_ERR_BAD_FORMAT (not a
 * perf.data, or one of other events; a recording that ends before its trace opens, and has no
 * streams). A recording may be read by several threads once open. */
int cofi_recording_open(struct cofi_recording **recording, const char *path,
                        struct cofi_error *error);
/* Same, told where code is. Strings are read during the call only; options may be
 * null. Errors besides: COFI_ERR_RANGE (impossible size), COFI_ERR_UNSUPPORTED (a
 * member that only a newer library knows is set). */
struct cofi_recording_options {
    size_t size;            /* sizeof(struct cofi_recording_options) */
    const char *symfs;      /* all files that the recording names, and proc, sys,
                             * boot and lib/modules of the recorded machine, are
                             * below this directory; null: this machine's own */
    const char *guestmount; /* files of the guest whose hypervisor is process PID are
                             * below guestmount/PID; null: a guest's files are found
                             * by their build ids only */
    const char *kcore;      /* the kernel's code as it was in memory; null: where
                             * perf keeps it, see docs/recording.md */
    const char *vmlinux;    /* or its file; taken whatever its build id is */
    const char *kallsyms;   /* the names of its functions: /proc/kallsyms of that boot,
                             * or its build's System.map, which is moved to where the
                             * kernel was; null: those that come with its code */
};
int cofi_recording_open_with(struct cofi_recording **recording, const char *path,
                             const struct cofi_recording_options *options,
                             struct cofi_error *error);
/* Null: nothing. */
void cofi_recording_close(struct cofi_recording *recording);
const struct cofi_recording_info *cofi_recording_info(const struct cofi_recording *recording);
/* Damage found on opening ("file ends inside record at 0x…"), the i-th, or null past the last. */
const char *cofi_recording_warning(const struct cofi_recording *recording, size_t i);
/* Whether part of the file is missing or cannot be read (a recorder that was killed leaves
 * a shorter file, which is whole), and how many trace bytes are known to be missing
 * (missing_bytes may be null). */
bool cofi_recording_damaged(const struct cofi_recording *recording, uint64_t *missing_bytes);

/* One stream: the bytes of one thread (or processor), in pieces that follow each other. What does
 * not follow (snapshots of a circular buffer, a thread number used again, pieces lost) is another
 * stream, so several may have one tid; snapshots that share bytes are pieces of one stream, which
 * has them once. What a flow is told of stream and recording shows examples/flow_common.h. */
struct cofi_recording_stream {
    int32_t pid, tid;      /* tid -1: per processor, whose switches tell who ran
                            * (cofi_recording_thread); perf record COMMAND makes
                            * such, too, unless with --per-thread */
    int32_t cpu;           /* -1: per thread */
    uint64_t bytes;        /* in all pieces */
    uint64_t reference_tsc;
    bool ends_in_overflow; /* RTIT: Buffer_Overflow was set when tracing ended [RTIT 4.2.5] */
    size_t pieces;
};
size_t cofi_recording_streams(const struct cofi_recording *recording);
const struct cofi_recording_stream *cofi_recording_stream(const struct cofi_recording *recording,
                                                          size_t i);
/* The stream's bytes [offset, offset + *n) as they lie in the file: *n is set to how many follow
 * without a break (0 at the end). The pointer is valid until the recording is closed. */
const uint8_t *cofi_recording_bytes(const struct cofi_recording *recording, size_t stream,
                                    uint64_t offset, size_t *n);
/* PT: where the buffer was full, as AUX records tell: offsets of the stream, ascending,
 * for flows and readers of packets; *n: how many. Owned by the recording. */
const uint64_t *cofi_recording_breaks(const struct cofi_recording *recording, size_t stream,
                                      size_t *n);
/* Bytes [offset, offset + n) of a stream are not needed for now: memory that shows
 * them is given back, if the file is mapped. Pointers to them stay valid; looking
 * there reads the file again. Thread safe. */
void cofi_recording_unneeded(const struct cofi_recording *recording, size_t stream, uint64_t offset,
                             uint64_t n);
/* Where a stream's byte lies in the file (for messages); UINT64_MAX past its end. */
uint64_t cofi_recording_file_offset(const struct cofi_recording *recording, size_t stream,
                                    uint64_t offset);

/* The first PSB at or after an offset of the stream, or (forward false) the last one at
 * or before it; UINT64_MAX: there is none. Cost: a search over the bytes between. */
uint64_t cofi_recording_psb(const struct cofi_recording *recording, size_t stream, uint64_t offset,
                            bool forward);
/* A PSB from which on decoding shows everything from a TSC value on: one whose time is before
 * it (with cycle counts 65,536 ticks before: so far may their estimates run ahead), the last
 * one or, of those within 4 KiB, the first; RTIT: the last but one before the
 * piece, so that the address is known there, too. 0 if the stream must be read from its start.
 * Cost: two binary searches, over the pieces' reference times and over the PSBs of one piece. */
uint64_t cofi_recording_seek(const struct cofi_recording *recording, size_t stream,
                             uint64_t tsc_ticks);

/* Sideband in time order, the i-th, or null past the last. */
const struct cofi_sideband *cofi_recording_sideband(const struct cofi_recording *recording,
                                                    size_t i);

/* A file that decoding needs beside the recording. */
struct cofi_recording_file {
    const char *path;  /* as the recording names it; a debug file: where one of its
                        * build id belongs */
    const char *found; /* the file that is read for it, which may be another one
                        * (symfs, perf's cache); null: none is */
    int fd;            /* that file, open for reading, at its beginning; -1: none */
    const char *why;   /* without one: why, in words */
};
/* Call take for each file of the host (guests: none) that user code was mapped from, in the
 * order of their first mappings, once each; behind it for the separate file that its names
 * and lines are read from, if there is one. Taken for found are ELF files with executable
 * parts, of the build id that the recording has, if it has one, and jitdumps; at last the
 * /tmp/perf-PID.map of each process that has one, of this user or root; never devices, pipes
 * or what else is not a regular file. Not called for memory of no file, what was deleted
 * when it was mapped, and what is gone or another file now while the recording has the pages
 * of it that ran. Strings are valid during the call, which may return other than 0 to end it
 * all; fd is closed behind it. Files of a kernel: see docs/recording.md. Returns 0, what
 * take returned, or COFI_ERR_NOMEM. Cost: opens every file; reads the headers and, of debug
 * files, some tables; of files that are missing, goes through the sideband. */
int cofi_recording_files(const struct cofi_recording *recording,
                         int (*take)(void *opaque,
                                     const struct cofi_recording_file *file), void *opaque);
/* The address space of a process over time (kernel code included where the recording
 * refers to it). A vfork or fork child starts as its parent's copy. Owned by the
 * recording. Null: no such process. */
const struct cofi_image *cofi_recording_image(struct cofi_recording *recording, int32_t pid);
/* The address space that a stream's code is in: its thread's process; for a
 * processor's stream, over time that of whichever process the recorded switches say
 * ran there. Owned by the recording; never null. */
const struct cofi_image *cofi_recording_stream_image(struct cofi_recording *recording,
                                                     size_t stream);
/* The address space in which a stream's code is while it runs in VMX non-root
 * operation (PIP.NR): that of the guest of the process whose turn it is, as far as
 * the recording has it; where it has not, each address tells that. As before. */
const struct cofi_image *cofi_recording_guest_image(struct cofi_recording *recording,
                                                    size_t stream);
/* Where a stream of kernel and user tells full times so seldom that processes are switched and
 * code is mapped between two of them (TSC alone; MTCs that are rare): what is known of the time
 * there, for a flow, in the order of offsets. Of a processor's stream the changes of CR3 are
 * laid beside the switches and execs that were recorded [SDM Paging Information (PIP) Packet].
 * Also of a thread whose trace tells no full time, in cofi's own recordings: there a piece
 * begins where its code had changed. *n is 0 elsewhere. Owned by the recording. Not for one
 * stream from two threads at a time. Errors: COFI_ERR_NOMEM. Cost: the first time all packets
 * of the stream are read, or its pieces gone over. */
int cofi_recording_bounds(struct cofi_recording *recording, size_t stream,
                          const struct cofi_time_bound **bounds, size_t *n);
/* Which thread a stream shows at a time: its own, or the one that ran on its
 * processor; *pid (may be null) its process. -1: not known. Cost: a binary search. */
int32_t cofi_recording_thread(const struct cofi_recording *recording, size_t stream,
                              uint64_t time_ns, int32_t *pid);
/* Name of a thread at a time, or null. */
const char *cofi_recording_comm(const struct cofi_recording *recording, int32_t tid,
                                uint64_t time_ns);
/* The last name that a stream's own thread had, before another one had its number;
 * or null. Cost: a binary search, and its names. */
const char *cofi_recording_stream_comm(const struct cofi_recording *recording, size_t stream);

#ifdef __cplusplus
}
#endif
#endif

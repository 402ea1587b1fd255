/* SPDX-License-Identifier: MIT
 * What the decoding commands share: input options, opening a recording or raw stream, a flow a stream. */
#ifndef COFI_CLI_SESSION_H
#define COFI_CLI_SESSION_H

#include <getopt.h>
#include <stdbool.h>

#include <cofi/cofi.h>

#include "registers.h"
#include "writer.h"

enum { SESSION_MAX_IMAGES = 64, SESSION_MAX_INPUTS = 64 };

struct session_options {
    const char *command;           /* for messages */
    const char *file;              /* the recording; null: cofi.data */
    char *const *files;            /* of a command that takes many: all of them */
    size_t files_n;
    char **record;                 /* what is to be recorded first and shown: the arguments from -- on, */
    int record_n;                  /* so many; 0: nothing */
    bool records;                  /* or could be so; its exit status is the command's then */
    char *inputs[SESSION_MAX_INPUTS]; /* what -i names, until all arguments are seen */
    size_t input_n;
    const char *raw;               /* a raw stream instead; of a command that takes raw files: whatever
                                    * it is, they are such */
    bool once;                     /* streams are decoded once each, with session_walk or a flow of their
                                    * own: of a pipe as it comes */
    bool may_lack_trace;           /* of a recording: it is said that it has none, and no error */
    bool from_psb;                 /* what is before the first PSB of a raw stream is left out, whatever
                                    * it seems to be */
    enum cofi_gen gen;             /* of raw */
    unsigned mode;                 /* of raw's code: 16, 32, 64; 0: found out */
    struct cofi_recording_options where; /* a recording's code is */
    const char *images[SESSION_MAX_IMAGES];
    size_t image_n;
    int32_t tid;                   /* -1: all */
    int32_t pid;                   /* 0: all */
    const char *comm;              /* threads whose name matches; null: all */
    uint32_t family, model, stepping;
    uint64_t from_offset, to_offset;
    uint64_t from_ns, to_ns;       /* perf time; UINT64_MAX: none */
    const char *output;            /* where to write; null: to standard output */
    bool writes;                   /* from when it is open on */
    bool json;
    enum cofi_demangle demangle;   /* how names are shown, of commands that show them */
    unsigned threads;              /* how many streams at once, or parts of one */
    struct registers registers;    /* of raw */
    bool given[128];               /* options, by letter */
};

/* Rows of every command's option table, and their short letters; those that decode with several threads
 * have SESSION_THREADS, too. */
#define SESSION_THREADS {"threads", required_argument, 0, 'N'}
#define SESSION_OUTPUT {"output", required_argument, 0, 'o'}
#define SESSION_OUTPUT_HELP                                                                         \
    "  -o, --output=FILE       write there (default: standard output)\n"
#define SESSION_INPUT {"input", required_argument, 0, 'i'}
#define SESSION_INPUT_OPTIONS                                                                       \
    SESSION_INPUT,                                                                                  \
    {"raw", required_argument, 0, 'R'}, {"gen", required_argument, 0, 'G'},                          \
    {"image", required_argument, 0, 'I'}, {"cpu", required_argument, 0, 'C'},                        \
    {"msr", required_argument, 0, 'M'}, {"mode", required_argument, 0, 'O'},                         \
    {"help", no_argument, 0, 'h'},                                                                   \
    {"symfs", required_argument, 0, 'Y'}, {"guestmount", required_argument, 0, 'U'},                 \
    {"kcore", required_argument, 0, 'K'}, {"vmlinux", required_argument, 0, 'V'},                    \
    {"kallsyms", required_argument, 0, 'Q'}
#define SESSION_TO {"to", required_argument, 0, 'T'}
#define SESSION_LONG_OPTIONS                                                                        \
    SESSION_INPUT_OPTIONS, {"tid", required_argument, 0, 't'}, {"pid", required_argument, 0, 'P'},  \
    {"comm", required_argument, 0, 'X'}, {"from", required_argument, 0, 'F'},  \
    SESSION_TO, {"json", no_argument, 0, 'j'}
#define SESSION_NAMES {"demangle", required_argument, 0, 'D'}
#define SESSION_NAMES_HELP                                                                          \
    "      --demangle=HOW      names of C++ and Rust: simple (default), full (with parameters), no\n"
#define SESSION_THREADS_HELP                                                                        \
    "      --threads=N         decode with N threads: streams, or parts of one (default: as many as processors)\n"
#define SESSION_INPUT_HELP                                                                          \
    "  -i, --input=FILE        FILE, perf's way\n"                                                  \
    "      --symfs=DIR         the recorded machine's files are below DIR\n"                        \
    "      --guestmount=DIR    a guest's files are below DIR/PID, PID its hypervisor's\n"           \
    "      --kcore=FILE        the kernel's code: as it was in memory\n"                            \
    "      --vmlinux=FILE      or its file\n"                                                       \
    "      --kallsyms=FILE     the names of its functions (kallsyms, System.map)\n"                 \
    "      --cpu=F/M[/S]       family/model/stepping it was traced on, where that is not told\n"    \
    "      --raw=FILE          decode a raw stream instead of a recording\n"                        \
    "      --gen=pt|rtit       what the raw stream is (default pt)\n"                               \
    "      --image=FILE[@ADDR] code for it: an ELF or PE file (loaded at ADDR), raw code at ADDR, or X.addr (page dump)\n" \
    "      --mode=16|32|64     of its code, until a packet tells (default: found out, or of the ELF file)\n" \
    "      --msr=N=HEX,...     its trace unit's registers as read back: 768=2f09,772=1f40,77d=5\n"  \
    "  -h, --help              this text\n"
#define SESSION_HELP                                                                                \
    "      --tid=TID           only this thread\n"                                                  \
    "      --pid=PID           only this process\n"                                                 \
    "      --comm=PATTERN      only threads whose name matches (shell pattern; 'cofi stat' lists them)\n" \
    "      --from=T --to=T     only from/to a time (1.25: the recording's seconds) or stream offset (@0x1f40)\n"     \
    "      --json              one object a line\n"                                                 \
    SESSION_INPUT_HELP

/* A command, for the parsing of its arguments. */
struct session_command {
    const char *name, *usage;
    const struct option *options; /* SESSION_LONG_OPTIONS and its own, ended by zeros */
    /* Takes one of its own options: 0, or negative if the value is bad. Null: it has none. */
    int (*take)(void *opaque, int letter, const char *argument);
    void *opaque;
    bool registers; /* --msr is of recordings, too */
    bool many;      /* it takes several recordings */
    bool records;   /* what follows -- is recorded first */
    bool writes;    /* with -o its output begins when the input is open; without it, it says when */
    bool raw_files; /* --raw has no argument: its files are raw streams */
    const char *letters; /* short options, as getopt has them; null: "hi:" */
};
enum { SESSION_HELPED = -1 };
/* Parse the arguments. EXIT_DONE, EXIT_USAGE after saying why, or SESSION_HELPED: --help was printed. */
int session_parse(const struct session_command *command, struct session_options *options, int argc,
                  char **argv);

struct session;
/* Open the input. EXIT_DONE, or the exit status after saying what is wrong. */
int session_open(struct session **session, const struct session_options *options);
void session_close(struct session *session);
/* The exit status of a command that has shown all: EXIT_DATA instead of EXIT_DONE where the recording is
 * damaged, or no stream has a PSB where --from begins, which was said, or ends before it, which is said now. */
int session_status(const struct session *session, int status);

struct session_stream {
    struct session *session;
    size_t order;     /* among those that --tid selects */
    size_t index;     /* of the recording */
    int32_t pid, tid, cpu;
    uint64_t bytes;   /* UINT64_MAX: a pipe, nobody knows (see session_drain) */
    const char *comm; /* never null */
    bool turns;       /* a processor's: pid, tid and comm are those of whoever runs, */
    uint64_t turn_ns; /* since about then, or before that */
    uint64_t position; /* of the next piece to hand out */
    uint64_t kept;     /* what lies before has been given back */
    uint64_t start;    /* decoding begins at the first PSB from here on; 0: where --from says */
    uint64_t skip;     /* instructions from there on that are not to be shown; whoever shows them minds that */
    /* Shown what a pipe gives as it is read, by whichever thread reads, one at a time; may be null. */
    void (*tap)(void *opaque, const uint8_t *bytes, size_t n);
    void *tap_opaque;
};
/* Streams that --tid selects. */
size_t session_streams(const struct session *session);
void session_stream(struct session *session, size_t i, struct session_stream *stream);
/* From now on, what session_stream tells of a stream: where its decoding starts, and what is skipped there. */
void session_start(struct session *session, size_t i, uint64_t start, uint64_t skip);
/* The offset of the first PSB from an offset on, or of the last one up to it; UINT64_MAX: there is none. */
uint64_t session_psb(const struct session_stream *stream, uint64_t offset, bool forward);
const struct cofi_recording *session_recording(const struct session *session); /* null: raw */
/* Where the buffer of a recorded stream was full; left as they are without a recording. */
static inline void session_breaks(const struct session_stream *stream, const uint64_t **breaks, size_t *n)
{
    const struct cofi_recording *recording = session_recording(stream->session);
    if (recording)
        *breaks = cofi_recording_breaks(recording, stream->index, n);
}
/* The code of a process, of which a raw stream has one; null: there is no such process. */
const struct cofi_image *session_image(const struct session *session, int32_t pid);
enum cofi_gen session_gen(const struct session *session);
void session_processor(const struct session *session, uint32_t *family, uint32_t *model); /* 0: not known */
/* RTIT: whether cycle counts follow the packets, by the recorded configuration or found out. */
bool session_cyc(const struct session_stream *stream);
/* Raw PT that begins without a PSB: whether its first byte seems to begin a packet. */
bool session_synced(const struct session_stream *stream);
/* Of a stream whose end has come: 0, or COFI_ERR_IO: it is a pipe that could not be read to its end, which was said. */
int session_ended(const struct session_stream *stream);
/* A pipe: read what is left of it, so that `bytes` tells its length. 0, or COFI_ERR_IO: it could not be
 * read, which was said. */
int session_drain(struct session_stream *stream);
/* Where decoding begins that shows all from a time (ns) on; 0: at the stream's start. */
uint64_t session_seek(const struct session_stream *stream, uint64_t from_ns);
/* The stream's bytes from an offset on, as they lie; *n: how many, 0 at the end. Not of a pipe. */
const uint8_t *session_bytes(const struct session_stream *stream, uint64_t offset, size_t *n);
/* All of a raw stream that is no pipe, the oldest byte first. */
const uint8_t *session_raw(const struct session *session, size_t *n);
/* The stream's bytes before an offset are not looked at any more: so memory does not grow with the trace. */
void session_unneeded(struct session_stream *stream, uint64_t offset);
const struct cofi_time_conv *session_time_conv(const struct session *session);
/* Names as they are to be shown; open as long as the session is. */
struct cofi_demangler *session_names(const struct session *session);
/* Who is shown a stream's blocks and events, in order. Each returns 0 to go on, 1 to stop, or an error. Of
 * blocks and event, where a walk or a merge shows them, SESSION_PAUSE to go on when that is asked again. */
enum { SESSION_PAUSE = 2 };
struct session_visitor {
    /* So many at once, between two events (and of one time, where that is told). Null: none is asked
     * for, which costs less. */
    int (*blocks)(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n);
    int (*event)(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event);
    void (*end)(void *opaque, struct cofi_flow *flow); /* before the flow is closed; may be null */
    void *opaque;
    /* What follows is of this stream (by time only), or of another thread (its session_stream says
     * which); may be null. */
    int (*stream)(void *opaque, struct session_stream *stream);
    int (*turn)(void *opaque, struct cofi_flow *flow);
    /* When the blocks that follow ran, told where it changes; may be null. Costs time. */
    void (*time)(void *opaque, struct cofi_flow_stamp stamp);
    bool trim; /* what was decoded, from a PSB on, but ran before the time of --from or behind that of
                * --to is not shown */
};
/* Decode a stream from --from to --to. 0, or the first error (said where it is about the input). */
int session_walk(struct session_stream *stream, const struct session_visitor *visitor);
/* Decode all streams, their items in the order of time; equal times: in the order of the streams. A
 * stream whose trace tells no time comes first; what stands before the first time that it tells is shown
 * with that. Memory: a flow for each of the streams that overlap in time, at least of the first ones. */
int session_walk_by_time(struct session *session, const struct session_visitor *visitor);
/* Whether streams belong to processors, so that a thread may be in several. */
bool session_per_processor(const struct session *session);
/* A processor's stream: note who runs at a time. True if that is another thread than before. */
bool session_turn(struct session_stream *stream, uint64_t time_ns);
/* Whether --tid, --pid and --comm select what runs on the stream now. */
bool session_shows(const struct session_stream *stream);
/* Do something for each stream, --threads of them at a time, output in order (see jobs.h). */
int session_each(struct session *session, int (*work)(void *opaque, size_t stream), void *opaque);
/* As session_each, each stream's output by a writer of its own (see writer_run). */
typedef int session_write(void *opaque, size_t stream, struct writer *out);
int session_write_each(struct session *session, session_write *write, void *opaque);
/* "thread 100 (sample)", "processor 3: thread 100 (sample)" */
const char *session_title(const struct session_stream *stream, char *out, size_t n);
/* Open the flow of a stream, honouring --from. The stream must outlive the flow. 0 or an error, said. */
int session_flow(struct session_stream *stream, bool want_time, struct cofi_flow **flow);
/* Decode a stream by several threads, as cofi_flow_parallel, with what a visitor wants, if there are any to
 * spare: --threads are shared out over the streams. SESSION_WHOLE: it is too short, or --to ends it;
 * nothing was done. Or the visitor's status, or an error. */
enum { SESSION_WHOLE = -10000 };
int session_split(struct session_stream *stream, const struct session_visitor *visitor, cofi_flow_visit visit,
                  void *opaque);
/* Count the stream, from --from's offset on, by as many threads as it may take. 0 or an error. */
int session_cover(struct session_stream *stream, struct cofi_coverage *coverage, struct cofi_flow_stats *stats);
/* Whether --from or --to is a time; then -1: this one lies before --from, 1: behind --to, 0: between them. */
bool session_by_time(const struct session *session);
int session_side(const struct session *session, uint64_t ticks);
/* Nothing was shown of a stream, for all of it lies before --from. */
void session_none(const struct session_stream *stream);
/* Whether --to is passed. */
bool session_past_end(const struct session *session, uint64_t offset, const struct cofi_flow_time *time);
/* "FILE+0x1f40" for messages. */
void session_place(const struct session_stream *stream, uint64_t offset, char *out, size_t n);

/* What a gap was, in words: cause, which check failed, and why code is not there. */
void session_gap(struct cofi_flow *flow, const struct cofi_flow_event *gap, char *out, size_t n);

#endif

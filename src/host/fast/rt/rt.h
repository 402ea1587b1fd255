/* SPDX-License-Identifier: MIT
 * The runtime inside of the traced program: its state and its parts. Freestanding: no libc, no TLS, no vector
 * registers; linked at COFI__FAST_RUNTIME_BASE. */
#ifndef COFI_HOST_FAST_RT_H
#define COFI_HOST_FAST_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/fast/shared.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

enum { FLAG_TF = 0x100, FLAG_ID = 0x200000 };

enum { PAGE = 4096, INSN_MAX = 15 }; /* bytes */

struct block;
struct exit;
struct sighand;

/* Kernel's sigaction for rt_sigaction. */
struct ksigaction {
    uint64_t handler, flags, restorer, mask;
};

/* Kernel's stack_t. */
struct kstack {
    uint64_t sp;
    int32_t flags, pad;
    uint64_t size;
};

struct ksiginfo {
    int32_t signo, error, code, pad;
    uint64_t addr; /* faults */
    uint8_t rest[128 - 24];
};

/* The errors by which the kernel tells itself to restart a call that a stop has interrupted [linux/errno.h]. */
enum restarts { RESTARTSYS = 512, RESTARTNOINTR, RESTARTNOHAND, RESTART_BLOCK = 516 };

/* Signals of faults that wait because the guest blocks them; it never sees that the kernel does not. */
struct held {
    uint64_t taken;       /* places that are in use, */
    uint64_t set;         /* … and hold one */
    struct ksiginfo info[12];
};

/* A thread: GS points here. The first page is the slot's head; entry.S knows the marked offsets. */
struct thread {
    struct cofi__fast_slot head;
    uint8_t head_pad[0x1000 - sizeof(struct cofi__fast_slot)];
    uint64_t s_rdx;       /* 0x1000: guest RDX inside of sequences that use it */
    uint64_t real_p;      /* 0x1008: P while R11 points at the guard page: a safepoint is wanted; else 0 */
    uint64_t safepoint;   /* 0x1010: SAFEPOINT_*; looked at when the runtime leaves */
    uint64_t s_rcx;       /* 0x1018: guest RCX inside of sequences that use it */
    uint64_t s_reg;       /* 0x1020: guest value of the register that stands in for R11 */
    uint64_t s_rip;       /* 0x1028: … for RIP */
    uint64_t s_gs;        /* 0x1030: guest value of the register that holds GS's base for a moment */
    uint64_t exit_id;     /* 0x1038: struct exit | kind */
    uint64_t exit_entry;  /* 0x1040: rt_entry */
    uint64_t miss_entry;  /* 0x1048: rt_miss */
    uint64_t target;      /* 0x1050: where rt_resume jumps */
    uint64_t stack_top;   /* 0x1058 */
    uint64_t p;           /* 0x1060: where the next record goes (R11 in the cache) */
    uint64_t flags;       /* 0x1068 */
    uint64_t pc;          /* 0x1070: guest address to go on at */
    uint64_t self;        /* 0x1078 */
    uint64_t regs[16];    /* 0x1080 */
    uint64_t miss_id;     /* 0x1100: 0 after rt_entry, 1 after rt_miss */
    uint64_t mode;        /* 0x1108: enum mode */
    uint64_t call_stack;  /* 0x1110: the runtime's own RSP while a system call of the guest runs */
    /* C only from here. */
    uint64_t chunk_end;   /* address behind the current chunk */
    uint64_t psb_due;     /* bytes of log after which a PSB follows */
    bool paused;          /* between PGD and PGE */
    struct {
        bool on;          /* an instruction runs natively under the trap flag */
        bool force;       /* the one at pc is to */
        bool unchecked;   /* … and its code could not be compared with what was translated */
        bool pushes;      /* it is PUSHF, which pushes our trap flag */
        bool pops;        /* … POPF or IRET, after which the trap flag is the guest's own */
        bool traps;       /* … a breakpoint, which traps behind itself */
        uint8_t cls;      /* enum cofi_class */
        uint64_t next;
    } step;               /* [step.c] */
    struct {
        bool has;         /* info holds one to deliver */
        bool sync;
        bool once;        /* … of an instruction that does not raise it again */
        bool has_second;  /* an asynchronous signal waits behind a fault */
        struct ksiginfo info, second;
    } signal;
    struct held held;     /* what was sent to this thread */
    struct {
        uint64_t pc;
        uint64_t err, trapno, cr2;
    } fault;              /* the guest's last one */
    struct {
        uint64_t rip, addr, releases;
        uint32_t times;
    } doubt;              /* the last write fault that was tried again */
    struct {
        uint64_t features; /* of the kernel's frames; 0: an FXSAVE area is all that is in them */
        uint32_t size;     /* without the mark behind it */
        uint32_t keys;    /* PKRU where a handler begins */
    } xstate;
    uint64_t mask;        /* guest's signal mask */
    struct kstack altstack; /* guest's */
    struct sighand *sighand;
    struct {
        uint64_t base;
        uint16_t selector; /* not 0: the base is the descriptor's, unless … */
        bool apart;       /* … the guest has set it to another one since */
    } gs;                 /* guest's */
    int32_t pid, tid, parent_tid;
    uint32_t process;     /* the same for its threads, and another one for those of other processes that
                           * share the memory */
    uint64_t made;        /* TSC before it was made: its parent may execute another program before it runs */
    uint64_t sysno;
    bool alien;           /* of a child that is not to be recorded (--no-follow) */
    bool clear_sighand;   /* it was made with CLONE_CLEAR_SIGHAND */
    bool followed;        /* the collector is attached, for an exec that has failed */
    bool strict;          /* seccomp's first mode */
    bool filtered;        /* filters were in force when it, or who it descends from, came into the runtime */
    bool no_tsc;          /* RDTSC raises SIGSEGV */
    struct {
        bool on;          /* SYSCALL raises SIGSYS, but from the range, and if the selector's byte, if
                           * there is one, says so */
        uint64_t start, bytes, selector;
    } dispatch;
    struct {
        uint8_t reg;      /* not 0: this register has another value for a moment, and here is the guest's */
        uint64_t value;
    } loan;
    struct {
        uint8_t how;      /* enum how: a branch to pc that is not in the log yet */
        uint8_t outcomes; /* before it */
    } crossing;
    uint64_t told;        /* the last TSC in the trace */
    uint64_t space;       /* rt.space: threads of one address space [thread_set_space] */
    uint64_t inside;      /* rt.epoch of the translated code that it may be in; 0: in the runtime */
    struct {
        uint64_t at;      /* guest's struct rseq; 0: none */
        uint32_t signature; /* attached: of the one that the thread has registered */
    } rseq;
    struct {
        uint64_t start, end, abort; /* end 0: none */
        uint32_t steps;
        uint64_t place[2]; /* the processor when it began, and what else its struct rseq told */
        uint64_t switches; /* times that it had lost its processor before the latest look at that */
        const struct section *whole; /* the one that it has come to, and is to run as a whole; or null */
    } section;            /* the restartable sequence that it is in [section.c] */
    struct {
        struct sequence *runs; /* null: none */
        uint64_t at;      /* how far it has come in its path, bytes */
        uint64_t how;     /* enum left: how it has left it */
        uint64_t counts;  /* s_rcx is the guest's */
        uint64_t rounds;  /* and how many more it may make */
    } sequence;           /* the one that it runs as a whole [sequence.c] */
    struct {
        uint64_t key;     /* which it is [store.h]; 0: that is not known */
        bool limited;     /* it began with a limit of its memory */
        bool knows_ignored; /* … and ignores these signals: what else an exec leaves of their actions is
                             * always the same */
        uint64_t ignored;
    } program;
    struct {
        uint8_t how;      /* enum attached */
        uint32_t restart; /* in a system call: enum restarts; 0: none, or it has been made */
        uint32_t parked;  /* at rest to leave the runtime: the state is exact */
        uint32_t left;    /* futex: has given back what was the program's */
        bool asked;       /* it has asked to be let out */
    } attach;
    int32_t shared_fd;    /* of the shared memory, and 1, in a new program: to be closed; 0: none */
    uint32_t asked;       /* a SIGTRAP that asks it to halt is on its way */
};

_Static_assert(offsetof(struct thread, s_rdx) == 0x1000, "entry.S");
_Static_assert(offsetof(struct thread, target) == 0x1050, "entry.S");
_Static_assert(offsetof(struct thread, regs) == 0x1080, "entry.S");
_Static_assert(offsetof(struct thread, miss_id) == 0x1100, "entry.S");
_Static_assert(offsetof(struct thread, mode) == 0x1108, "entry.S");
_Static_assert(offsetof(struct thread, call_stack) == 0x1110, "entry.S");

/* Signal actions of a process. */
struct sighand {
    struct ksigaction actions[65];
};

/* In a slot, behind the context: the path through a sequence that runs as a whole. */
enum { SLOT_PATH = 0x4000, SLOT_PATH_BYTES = 0x1000 };
_Static_assert(sizeof(struct thread) <= SLOT_PATH, "both fit");

/* … the actions of a child that shares its parent's memory, not its actions (vfork). */
enum { SLOT_SIGHAND = 0x8000 };
_Static_assert(SLOT_PATH + SLOT_PATH_BYTES <= SLOT_SIGHAND &&
                   SLOT_SIGHAND + sizeof(struct sighand) <= COFI__FAST_SLOT_NOTES,
               "both fit");

/* How the runtime came into the thread: at its program's exec, or while it ran, as the process's first
 * thread or another one. Or that the thread leaves it, as the first one or another. */
enum attached { ATTACHED_NOT, ATTACHED_FIRST, ATTACHED_JOINS, LEAVES_FIRST, LEAVES };

enum { SAFEPOINT_SIGNAL = 1, SAFEPOINT_PSB = 2, SAFEPOINT_END = 4, SAFEPOINT_HALT = 8 };

/* What a thread's translated code does; each mode has blocks of its own. */
enum mode {
    MODE_TRACED,
    MODE_OUTSIDE,         /* of the filter's ranges */
    MODE_OFF,             /* until a start address */
    MODE_STOPPED,         /* for good */
    MODES
};

/* How a thread came to where it is. */
enum how { HOW_NONE, HOW_NEXT, HOW_JCC, HOW_DIRECT, HOW_INDIRECT };

/* What a mapping shows. */
struct origin {
    uint64_t inode, offset;
    const char *name;     /* n bytes, as /proc/self/maps has them */
    size_t n;
};

/* A range of the guest's memory with execute permission. */
struct region {
    uint64_t start, end;
    uint32_t origin;      /* which file and where in it: another number for others */
    uint32_t told;        /* where the collector may find another file by its name, or none, or none any
                           * more: address of a bit a page, told; else 0 */
    uint64_t since;       /* TSC: when it was first seen */
    uint32_t page;        /* which one of its file is its first */
    uint8_t filter;       /* from 1, the first one that names its file; 0: none */
    bool writable : 1, file : 1, shared : 1, dirty : 1; /* dirty: bytes may differ from the file's */
    bool nameless : 1;    /* of no file, nor named by the kernel or the program: always dirty */
    bool gone : 1;        /* unmapped or replaced since the mappings were read */
    bool closed : 1;      /* its code may not be run, since then */
    bool stale : 1;       /* mappings there have changed since then */
};
_Static_assert(sizeof(struct region) == 40, "a compact region");

enum { REGIONS = 16384 };

/* Process-wide state; private memory, so a fork has its copy. */
struct runtime {
    struct cofi__fast_control *control;
    uint32_t lock;
    struct thread *forking; /* who holds the lock in a call of the guest's, in which a filter may kill it; null: none */
    unsigned region_count;
    bool maps_stale;      /* all regions */
    uint64_t maps_tsc;    /* when the mapping that is being told came; 0: now */
    uint64_t protected_pages;
    uint64_t releases;    /* pages made writable again, ever */
    uint64_t rights_set;  /* times that a page's rights were changed for that */
    bool vsyscall;        /* the kernel has the vsyscall page */
    bool filtered;        /* seccomp filters may be in force */
    bool stops_tsc;       /* a thread has, or had, RDTSC forbidden: translated code has none */
    bool gs_descriptors;  /* … a descriptor in GS, which may be changed: translated code has no operand there */
    bool locks;           /* what the guest maps from now on is locked in memory */
    bool runs_readable;   /* what can be read can be run, for some thread (READ_IMPLIES_EXEC) */
    bool misses_pages;    /* an instruction may wait for a page, as long as no signal comes (userfaultfd) */
    unsigned sections;    /* restartable sequences that are known */
    bool has_sections;    /* … or there may be some that are not */
    bool forked;          /* it executes what its parent does: nothing of its own since the fork */
    bool other_pids;      /* this process or its children may be in another PID namespace than the collector */
    uint64_t space;       /* names this address space */
    uint64_t guarded[COFI__FAST_SLOTS_MAX / 64]; /* a bit a slot: its chunks have guard pages in this address space */
    uint32_t guarded_slots, guarded_kept;        /* how many; and when those of threads that had ended went last */
    uint64_t told;        /* every thread that is traced has told this TSC or a later one */
    uint64_t forgotten;   /* TSC: when code was forgotten last, which may be told as another */
    uint64_t epoch;       /* of the generation of translated code in use, from 1 */
    uint32_t begun;       /* what all threads share is in place */
    uint64_t halting;     /* futex (its lower half): the thread that ends its process, or tries to by an
                           * exec [halt.c]; 0: none */
    struct region regions[REGIONS]; /* by address */
};
extern struct runtime rt;

/* entry.S */
void rt_entry(void);
void rt_miss(void);         /* the table has no block for RCX any more */
void rt_miss_arrival(void); /* … or another one: RCX - RDX is the target */
void rt_resume(struct thread *t) __attribute__((noreturn));
void rt_native(struct thread *t, void *frame) __attribute__((noreturn));
extern const uint8_t rt_native_iret[];
int rt_guest_syscall(struct thread *t); /* 0 done, 1 a signal waits */
long rt_clone(struct thread *t, struct thread *child);
void rt_restart(void);   /* signal handlers redirect here: back to dispatch with a fresh stack */
void rt_restorer(void);
void rt_sigreturn(void *frame) __attribute__((noreturn));
long rt_syscall6(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);
extern char rt_resume_end[];
extern char rt_miss_slow[]; /* behind that look: no table has a block for RCX */
extern char rt_sys_begin[], rt_sys_insn[], rt_sys_end[], rt_sys_pending[], rt_clone_end[];
int rt_probe(void *to, const void *from, size_t n); /* copy guest memory; -1 where it faults */
extern char rt_probe_begin[], rt_probe_end[], rt_probe_fault[];

static inline long sys(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    return rt_syscall6(nr, a, b, c, d, e, f);
}

static inline uint64_t rdtsc(void)
{
    uint32_t lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { USER_END = 0x7ffffffff000 }; /* of the addresses that a program can have */

/* Of whole pages. */
static inline uint64_t end_of(uint64_t start, uint64_t bytes)
{
    return start + ((bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1));
}
enum { TRAP_OVERFLOW = 4, TRAP_PROTECTION = 13, TRAP_PAGE_FAULT = 14 }; /* vectors of exceptions */

/* util.c */
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
void rt_die(const char *why, uint64_t value) __attribute__((noreturn));
void rt_pause(unsigned round); /* of a wait for others */
void rt_lock(void);
bool rt_try_lock(void);
void rt_unlock(void);
void *rt_alloc(size_t n);      /* gone with the generation of code in use */
void *rt_alloc_kept(size_t n); /* never freed */
size_t rt_kept_left(void);

/* log.c */
bool log_open(struct thread *t); /* false: the process has as many mappings as it may (vm.max_map_count) */
void log_drop_guards(void);      /* before a fork */
void log_put(struct thread *t, unsigned what, uint64_t address);
void log_tip(struct thread *t, unsigned outcomes, uint64_t target);
void log_outcomes(struct thread *t, unsigned outcomes);
void log_trim(struct thread *t);
void log_rest(struct thread *t);
void log_again(struct thread *t);
bool log_is_guard(const struct thread *t, uint64_t fault);
void log_guard(struct thread *t);
uint64_t log_nowhere(const struct thread *t);
void log_settle(struct thread *t);
unsigned log_take_back(struct thread *t);
void note_put(struct thread *t, unsigned kind, const uint64_t v[4], const void *bytes, size_t n);
void bell(struct thread *t);
uint32_t collector_answer(struct thread *t, const uint32_t *over);
uint32_t collector_ask(struct thread *t, uint32_t note, const uint64_t v[4]);
bool collector_gone(void);
void collector_look(struct thread *t, uint32_t place);

/* mappings.c */
struct mapping {
    uint64_t start, end;
    bool executable, writable, shared;
    struct origin origin;
};
int mappings_open(void);
void mappings_read(int fd, void (*take)(void *context, char *line, const char *end), void *context);
uint64_t mapping_start(uint64_t address);
void mapping_parse(struct mapping *m, char *line, const char *end);
bool mapping_query(int fd, uint64_t address, struct mapping *m);

/* maps.c */
/* A few; if there are more, the last is one over the rest. */
struct spans {
    struct span { uint64_t start, end; } at[16];
    unsigned n;
};
void spans_add(struct spans *r, uint64_t start, uint64_t end);
bool spans_overlap(const struct spans *r, uint64_t start, uint64_t end);
const struct region *maps_find(struct thread *t, uint64_t pc);
bool maps_there(uint64_t address);
size_t maps_readable(uint64_t pc);
/* Say to the collector what code lies in [start, end), where it does not find the files. */
void maps_tell(struct thread *t, uint64_t start, uint64_t end);
enum change {
    CHANGE_TO_CODE, /* its rights: it can be read and run, not written */
    CHANGE_RIGHTS,  /* to any others without writing */
    CHANGE_BYTES,
    CHANGE_MAPPING
};
/* `since`: when the call began that has done it; 0: not known. */
void maps_changed(uint64_t start, uint64_t end, enum change what, uint64_t since);
void maps_stale(uint64_t start, uint64_t end, uint64_t since);
void maps_forked(uint64_t now);
void maps_lost(uint64_t start, uint64_t end, bool files);
void maps_rights(uint64_t start, uint64_t end, uint64_t prot, bool alone, uint64_t since);
void maps_made_executable(uint64_t start, uint64_t end, uint64_t since);
bool maps_writable(uint64_t addr);
bool maps_writes_at(uint64_t address);
uint64_t maps_end_of_code(const struct region *r);

/* pages.c */
enum { COMPARED_BYTES = 960, WATCHED_BYTES = 3072 }; /* from a block's lowest to its highest at most: in
                                                      * one piece, and of code that may change */
uint64_t pages_same_until(uint64_t start, uint64_t end, bool *is);
void pages_forget(uint64_t start, uint64_t end);
bool pages_protect(const struct region *r, uint64_t start, uint64_t end);
bool pages_write_fault(uint64_t addr);
bool pages_compared(const struct region *r, uint64_t pc);
void pages_wrote(uint64_t address);
void pages_release(uint64_t start, uint64_t end);
void pages_release_all(void);
void pages_sealed(uint64_t start, uint64_t end);

/* targets.c */
void targets_release(const struct thread *t);
bool targets_known(const struct thread *t);
bool targets_on(uint64_t page);
void targets_release_tids(const uint64_t args[8]);
void targets_release_ending(const struct thread *t);

/* advice.c */
void advice_given(const struct thread *t);
void advice_taken(const struct thread *t);
void advice_mapped(const struct thread *t, uint64_t start);
void advice_moved(uint64_t from, uint64_t from_end, uint64_t to, uint64_t to_end);
void advice_forked(void);
bool advice_moves_pages(const struct thread *t);
void advice_pages_move(const struct thread *t);
void advice_pages_moved(const struct thread *t);

/* cache.c */
void cache_init(void);
void cache_flush(void);
void cache_prefetch(uint64_t pc, unsigned mode, bool arrived);
struct block *cache_find(uint64_t pc, unsigned mode, bool arrived);
struct block *cache_find_code(const uint8_t *code);
const struct exit *cache_exit_at(const struct block *b, const uint8_t *code);
void cache_link(struct exit *e, struct block *b);
void cache_invalidate(uint64_t start, uint64_t end);
void cache_wake(struct block *b);
void cache_forget(struct block *b);
void cache_ibl(struct block *b);
void cache_replace(struct block *old, struct block *b, bool link);

/* watch.c */
void watch_add(struct block *b, const uint8_t *compared);
void watch_told(struct block *b);
void watch_forget(uint64_t start, uint64_t end);
void watch_forget_changed(const struct block *b);
void watch_forget_new(struct block *b);
struct block *watch_wake(const struct region *r, uint64_t pc, unsigned mode, bool arrived, bool cold);
void watch_drop(uint64_t start, uint64_t end);
void watch_flush(void);

/* translate.c */
struct block *translate(const struct region *r, uint64_t pc, unsigned mode, bool arrived, bool cold);
enum { STAND_INS = 5 };
extern const uint8_t stand_ins[STAND_INS], rip_stand_ins[4];

/* XCR0, or which of its components are in use; 0 without XSAVE. */
static inline uint64_t rt_xgetbv(uint32_t index)
{
    uint32_t lo = 0, hi = 0;
    if (rt.control->xsave)
        __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(index));
    return lo | (uint64_t)hi << 32;
}

/* Whether there are protection keys, and PKRU. Code may run that they forbid to read. */
static inline bool has_keys(void)
{
    return rt_xgetbv(0) >> 9 & 1;
}

static inline uint32_t keys_now(void)
{
    uint32_t lo, hi;
    __asm__ volatile("rdpkru" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static inline void keys_set(uint32_t keys)
{
    __asm__ volatile("wrpkru" : : "a"(keys), "c"(0), "d"(0) : "memory");
}

/* Read what the thread's protection keys forbid, from here on; they are given back by keys_close. */
static inline uint32_t keys_open(void)
{
    uint32_t keys = has_keys() ? keys_now() : 0;
    if (keys)
        keys_set(0);
    return keys;
}

static inline void keys_close(uint32_t keys)
{
    if (keys)
        keys_set(keys);
}

/* filter.c */
uint8_t filter_of(const struct origin *o);
void filter_maps_read(void);
unsigned filter_first(void);
unsigned filter_mode(unsigned mode, uint64_t pc, bool taken);
bool filter_trigger(uint64_t pc);

/* trace.c */
void trace_begin(struct thread *t, bool wanted);
void trace_pause(struct thread *t, unsigned what, uint64_t address);
void trace_resume(struct thread *t);
void trace_branch(struct thread *t, enum how how, unsigned outcomes);
void trace_missed(struct thread *t);
void trace_code(struct thread *t, const struct block *b, bool indirect);
bool trace_all_know(uint64_t tsc);
void trace_trigger(struct thread *t);

/* threads.c */
void thread_set_space(struct thread *t, uint64_t space);
bool threads_any(bool (*is)(const struct thread *t, uint64_t value), uint64_t value);
/* Of a thread that runs: its slot is in use, and by whom, though the program may have written over it. */
void slot_keep(struct thread *t);

/* section.c */
void section_register(struct thread *t);
void section_attached(const struct thread *t);
void section_forked(void);
bool section_starts(uint64_t pc);
void section_look(uint64_t pc, uint64_t at);
bool section_here(struct thread *t);
bool section_aborts(struct thread *t);
bool section_runs(struct thread *t);
void section_left(struct thread *t);
void section_barrier(const struct thread *t);

/* held.c */
void held_put(struct thread *t, const struct ksiginfo *info);
uint64_t held_set(const struct thread *t); /* those that wait for t */
int held_take(struct thread *t, uint64_t set, struct ksiginfo *info); /* the first of the set; 0: none */
int held_take_shared(const struct thread *t, struct ksiginfo *info); /* … of what waits for any thread of its process */
void held_drop(struct thread *t, int signo);
void held_as_sent(struct ksiginfo *info);
void held_forked(void);
bool held_lets_in(const struct thread *t, int signo); /* it is delivered there, not kept or returned by a wait */

/* send.c */
void send_await(struct thread *t); /* a call has sent a signal */

/* halt.c */
void halt_others(struct thread *t);
void halt_over(struct thread *t);
void halt_await(struct thread *t);
bool halt_asked(struct thread *t, int signo, const struct ksiginfo *info);
void halt_gate(struct thread *t);

/* share.c: the program ends, perhaps by an exec, and what was translated is for its next runs. */
void share_leave(const struct thread *t);

/* ours.c */
bool ours_at(uint64_t address);
long ours_spared(struct thread *t, long (*call)(struct thread *));

/* leave.c */
bool leave_wanted(const struct thread *t);
void leave_gate(struct thread *t);
bool leave_ask(struct thread *t);
void leave_now(struct thread *t) __attribute__((noreturn));

/* dispatch.c, step.c */
void step_begin(struct thread *t);
void step_done(struct thread *t, uint64_t from);
bool step_is_call(struct thread *t);
bool step_aborts(struct thread *t); /* XBEGIN at t->pc: t->pc is its fallback */
struct cofi__fast;
int step_decode(struct thread *t, struct cofi__fast *x);
void rt_dispatch(struct thread *t);
void rt_start(struct thread *t);

/* syscalls.c, seccomp.c, threads.c */
/* No results: a signal is to be delivered first; not done yet. A call returns any number of bytes, any
 * offset, any errno. */
#define SYS_PENDING INT64_MIN
#define SYS_PASS (INT64_MIN + 1)
void do_syscall(struct thread *t);
void thread_over(struct thread *t);
bool do_vsyscall(struct thread *t);
long do_seccomp(struct thread *t);
bool seccomp_came(void);
void seccomp_strict(struct thread *t, bool interrupt);
long seccomp_ask(struct thread *t);
uint64_t seccomp_block(const struct thread *t);
long call_with(struct thread *t, unsigned reg, uint64_t value);
long thread_clone(struct thread *t, uint64_t flags, uint64_t stack);
void rt_child(struct thread *t);

/* A thread has another name: up to 15 bytes at RSI [prctl(2)], of `most`, which the kernel has read.
 * who: whose, null: its own. */
void note_name(struct thread *t, const uint64_t who[4], size_t most);

/* proc_file.c */
void proc_file_opened(const struct thread *t, uint64_t fd);
void proc_file_written(struct thread *t, uint64_t n);

/* limits.c, resident.c */
long do_limit(struct thread *t);
long do_mlockall(struct thread *t);
long do_munlockall(struct thread *t);

/* forbid.c */
enum { PR_DISPATCH = 59 }; /* PR_SET_SYSCALL_USER_DISPATCH */
struct cofi__fast;
bool forbid_came(void);
void forbid_tsc(struct thread *t);
void forbid_lend(const struct thread *t, bool lend);
bool forbid_is_tsc(const struct cofi__fast *x);
bool forbid_fault(struct thread *t);
long do_set_tsc(struct thread *t);
long do_get_tsc(struct thread *t);
long do_dispatch_user(struct thread *t);
bool forbid_call(struct thread *t);

/* altstack.c */
long do_sigaltstack(struct thread *t);
long do_more_registers(struct thread *t); /* arch_prctl(ARCH_REQ_XCOMP_PERM) */
void signals_own_stack(struct thread *t);

/* signals.c */
void signals_init(struct thread *t);
/* Of a thread that is made without CLONE_SIGHAND, before and after. */
void signals_copy(const struct thread *t, struct thread *c, bool shares_memory);
void signals_forked(struct thread *t);
void signals_raise(struct thread *t, const struct ksiginfo *info);
void signals_end(struct thread *t, int signo);
void signals_deliver(struct thread *t);
bool signals_release(struct thread *t);
long do_sigpending(struct thread *t);
long do_sigtimedwait(struct thread *t);
long do_sigaction(struct thread *t);
long do_sigprocmask(struct thread *t);
void signals_hand_over(struct thread *t, bool before);
void signals_cleared(struct thread *t);
void do_sigreturn(struct thread *t);
void call_done(struct thread *t, uint64_t result);
void signals_set_mask(const struct thread *t);
uint64_t signals_block_all(void);
void native_gs(const struct thread *t);
void take_gs(struct thread *t);
void native_step(struct thread *t) __attribute__((noreturn));
bool signals_offer(struct thread *t);
uint64_t signals_mask_now(const struct thread *t);
bool signals_ends_all(const struct thread *t, int signo);
void signals_give_back(struct thread *t);
void signals_give_back_actions(const struct thread *t);

#define SYNC_SIGNALS (1ul << (11 - 1) | 1ul << (7 - 1) | 1ul << (4 - 1) | 1ul << (8 - 1) | 1ul << (5 - 1))

#endif

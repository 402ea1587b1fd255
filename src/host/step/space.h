/* SPDX-License-Identifier: MIT
 * An address space: its executable mappings, the code that was told of, and what memory says now. */
#ifndef COFI_HOST_STEP_SPACE_H
#define COFI_HOST_STEP_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <cofi/insn.h>

enum { STEP_PAGE = 4096, STEP_INSN_MAX = 15 };

/* What stepping must know of an instruction beyond its class. */
struct step_code {
    struct cofi_insn insn;
    bool string;    /* a REP-prefixed string instruction: several steps, one instruction */
    bool moves;     /* with element != 0: REP MOVS, else REP STOS */
    uint8_t element; /* bytes of one iteration of a REP MOVS or STOS that cofi__step_rep_ahead may do; 0: none */
    bool syscall;   /* SYSCALL, SYSENTER, INT 80h */
    bool pushf;     /* stores RFLAGS, our TF among them */
    bool sets_tf;   /* POPF, IRET: see cofi__step_forget_tf */
    bool load_ss;   /* the step trap comes one instruction later (SDM, MOV) */
    bool store;     /* MOV of 4 or 8 bytes to memory: may enter an rseq critical section */
    bool pause;
    bool xbegin;    /* aborted where it begins, not stepped */
    uint8_t vector; /* INT n, INT3, INT1, INTO */
    uint8_t cond;   /* JCC: low 4 bits of its opcode, or STEP_COND_* */
    bool addr_half; /* 67h: LOOP and JCXZ count in half of the register */
};

struct step_mapping {
    uint64_t start, end, pgoff, inode;
    uint32_t prot, flags; /* as mmap(2) has them */
    uint32_t major, minor;
    bool watched; /* others than its own system calls may change it: writable or shared */
    bool served;  /* of a file system that a program serves, which may be one that waits for us */
    char *path;   /* as /proc shows it; "" for anonymous memory */
    char *file;   /* where we find it, and will later, once it was told; null: nowhere */
};

/* An executed page: bytes as the observers know them. */
struct step_page {
    uint64_t addr;
    struct step_page *next;    /* in its hash chain */
    bool coded;                /* the observers were sent these bytes: no file holds them */
    bool watched, stale;
    uint16_t slots[STEP_PAGE]; /* 1 + index in codes of the instruction at an offset, 0: not decoded */
    struct step_code *codes;
    size_t codes_n, codes_max;
    unsigned mode;             /* that the slots were decoded in */
    uint8_t bytes[STEP_PAGE];
};

struct step_space {
    unsigned users;            /* processes */
    struct step_mapping *maps; /* executable ones, ascending */
    size_t maps_n;
    struct step_page **buckets;
    size_t buckets_n, pages_n;
    struct step_page *last;    /* the page asked for last */
    bool no_memory;            /* for what the processes run: it was not told, or is not known, once */
};

/* New bytes or a new mapping that the observers must learn of. Return < 0 ends. */
struct step_news {
    void *opaque;
    void (*code)(void *opaque, struct step_space *space, uint64_t addr, const uint8_t *bytes, size_t len, size_t ahead,
                 const char *label); /* ahead: bytes behind these that are there too */
    void (*mapping)(void *opaque, struct step_space *space, const struct step_mapping *mapping);
    struct cofi__namespaces *namespaces; /* of mounts, where files are looked for */
    struct timespec began;               /* the recording [host/young.h]; 0: all files are young */
};

struct step_space *cofi__step_space_new(void);
/* A fork child's: same mappings, same knowledge. */
struct step_space *cofi__step_space_copy(const struct step_space *space);
void cofi__step_space_drop(struct step_space *space);

/* Read /proc/TID/maps again; tell what is new. Pages whose mapping went are forgotten, the others will be
 * compared when they run next. Returns 0 or a negative errno. */
int cofi__step_space_refresh(struct step_space *space, pid_t tid, const struct step_news *news);
/* Compare [start, end) with memory when it runs next. */
void cofi__step_space_doubt(struct step_space *space, uint64_t start, uint64_t end);
bool cofi__step_space_overlaps(const struct step_space *space, uint64_t start, uint64_t end);

/* The instruction at ip, as memory has it now; news if that differs from what was told. Null: not
 * executable, not readable or no instruction. */
const struct step_code *cofi__step_space_code(struct step_space *space, pid_t tid, uint64_t ip, unsigned mode,
                                              bool verify, const struct step_news *news);

/* Bytes of a stopped thread's memory, whatever its protection. Return how many, less at the end. */
size_t cofi__step_read(pid_t tid, uint64_t addr, void *bytes, size_t n);
size_t cofi__step_write(pid_t tid, uint64_t addr, const void *bytes, size_t n);

#endif

/* SPDX-License-Identifier: MIT
 * Scenarios: a text file with configuration, code, events and what is expected, read, run and compared. */
#ifndef COFI_CLI_SIM_H
#define COFI_CLI_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cofi/event.h>
#include <cofi/image.h>
#include <cofi/unit.h>

/* What a section's lines are. SETUP is everything before the first other section. */
enum sim_section { SIM_SETUP, SIM_EVENTS, SIM_PACKETS, SIM_BYTES, SIM_FLOW, SIM_REGISTERS, SIM_SECTIONS };

enum { SIM_LINE = 1024 }; /* longest line but of bytes, with its end */

struct sim_line {
    unsigned number; /* in the file, from 1 */
    char *text;      /* without indentation, comment and newline; not empty */
};

struct sim_code {
    uint64_t address;
    uint8_t *bytes;
    size_t n;
};

/* A scenario as read. All memory but the path and the name is its own. */
struct scenario {
    const char *path, *name; /* name: null where the file has one without a name */
    struct sim_line *lines[SIM_SECTIONS];
    size_t n[SIM_SECTIONS];
    bool has[SIM_SECTIONS]; /* the section is there, though it may be empty */
    struct sim_code *code;
    size_t code_n;
};

/* A file's scenarios, each from a line "scenario NAME" on: what stands before the first one is of each.
 * Without such a line it is one. */
struct sim_file {
    const char *path;
    bool many;
    char *common;        /* null: nothing */
    char *name, *text;   /* the scenario at hand */
    unsigned line;       /* before its first */
    char *rest;          /* null: it was the last */
    unsigned rest_line;
};
/* text is the file's, and is changed. */
void sim_file_begin(struct sim_file *file, const char *path, char *text);
/* On to the first or next scenario; false: there is none. */
bool sim_file_next(struct sim_file *file);
/* Read the scenario at hand, once. 0, or EXIT_DATA or EXIT_ENVIRONMENT after a complaint. run_assembler:
 * whether asm sections may run as(1); without it they are an error. */
int sim_parse(struct scenario *scenario, struct sim_file *file, bool run_assembler);
void sim_free(struct scenario *scenario);
/* "cofi sim: FILE:LINE: message"; EXIT_DATA. */
int sim_fail(const struct scenario *scenario, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Assembler text -> code appended to the scenario. mode: 16, 32, 64. */
int sim_assemble(struct scenario *scenario, unsigned line, uint64_t address, unsigned mode, const char *text);
int sim_add_code(struct scenario *scenario, uint64_t address, uint8_t *bytes, size_t n);

/* A packet that the unit made, with the rule, or why there was none. */
struct sim_made {
    struct cofi_packet packet; /* kind COFI_PKT_NONE: none */
    uint64_t offset, ip;       /* ip: expanded, if has_ip */
    bool has_ip;
    const char *rule, *tag;
    unsigned line;             /* of the event */
};

/* A run. */
struct sim {
    const struct scenario *scenario;
    struct cofi_unit_config config;
    struct cofi_unit *unit;
    struct cofi_context context;
    uint64_t ip, last_ip, tsc_at_start;
    unsigned line;             /* the line at hand */
    uint8_t *bytes;            /* the trace, in the order in which it left */
    size_t n, room;
    struct sim_made *made;
    size_t made_n, made_room;
    uint64_t *ran;             /* addresses of instructions that ran */
    size_t ran_n, ran_room;
    uint8_t *memory;           /* with `memory` */
    uint64_t memory_n;
    struct cofi_reorder *reorder; /* with weak lines: the collector of the region below, or null */
    uint64_t region_base, region_mask, start_offset; /* start_offset: RTIT_OFFSET when tracing began */
    bool overrun;              /* no memory of our own left */
    uint64_t steps;            /* instructions executed by the code; bounded */
    FILE *events;              /* where each event is told, or null */
    bool json;
};

/* Open the unit and run setup and events. 0, or an exit status after a complaint. */
int sim_run(struct sim *sim, const struct scenario *scenario);
void sim_close(struct sim *sim);
/* Lines like taken, to 401000, until 401020, step 3: the code runs. -1 if the line is none of these.
 */
int sim_step_line(struct sim *sim, const char *text);
int sim_send(struct sim *sim, struct cofi_event *event);
/* The instruction at the current address; 0 or an exit status after a complaint. */
struct cofi_insn;
int sim_insn(struct sim *sim, struct cofi_insn *insn);

/* What came out against what the scenario expects; differences go to stdout. Returns how many. */
int sim_check(struct sim *sim);
/* "0000000000000009  FUP.PGE  0z: …  ip …", with the rule and its tag where asked for. */
void sim_print_made(FILE *out, const struct sim *sim, const struct sim_made *made, bool rule);
void sim_print_registers(FILE *out, const struct sim *sim);

#endif

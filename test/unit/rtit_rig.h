/* SPDX-License-Identifier: MIT
 * A unit on a bench: events in, packets out as text, read by the plain reader. */
#ifndef TEST_UNIT_RTIT_RIG_H
#define TEST_UNIT_RTIT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/unit.h>

#include "reference/rtit_plain.h"

enum {
    MSR_LIP0 = 0x760, MSR_LIP1, MSR_LIP2, MSR_LIP3, MSR_CTL = 0x768, MSR_STATUS, MSR_CNTP = 0x76b,
    MSR_EVENTS, MSR_LAST_LIP = 0x76e, MSR_LAST_CALL_NLIP, MSR_BASE_ADDR, MSR_LIMIT_MASK, MSR_OFFSET,
    MSR_CR3_MATCH = 0x777, MSR_PKT_CNT = 0x77c, MSR_TNT_BUFF,
};

struct rig {
    struct cofi_unit *unit;
    struct cofi_context context;
    struct plain_state plain;
    uint8_t bytes[1 << 16];
    size_t n, seen;      /* bytes taken; those already shown */
    size_t limit;        /* the sink refuses more than so many; 0: all it has room for */
    char text[8192];
};

/* A unit with this configuration (null: default) at CPL 3 in 64-bit mode, registers at reset. */
void rig_open(struct rig *rig, const struct cofi_unit_config *config);
void rig_close(struct rig *rig);
/* Trace everything everywhere: Filter_Event_ID on, TraceStop off, OS and User, then enabled. */
void rig_start(struct rig *rig, uint64_t more_ctl_bits);
void rig_write(struct rig *rig, uint32_t msr, uint64_t value);
uint64_t rig_read(struct rig *rig, uint32_t msr);
void rig_field(struct rig *rig, const char *name, uint64_t value);
/* The packets since the last call, "a; b; c". Drains the unit. */
const char *rig_packets(struct rig *rig);
#define assert_packets(rig, expected) assert_string_equal(rig_packets(rig), expected)

/* A test as data: registers, events, packets. */
struct scripted {
    const char *name;     /* a sentence */
    const char *fields;   /* "less_pkts=1 lip0=1000": hexadecimal, on top of: everything traced, everywhere */
    const char *prepare;  /* event lines, separated by ';', whose packets do not count */
    const char *events;
    const char *packets;
    const char *after;    /* fields afterwards, as in fields; or null */
    const struct cofi_unit_config *config; /* null: default */
};
/* "name=hex name=hex"; trace_en and trace_active are not for here but for rig_enable. */
void rig_fields(struct rig *rig, const char *fields);
void rig_enable(struct rig *rig);
/* Event lines separated by ';'. */
void rig_events(struct rig *rig, const char *lines);
void rig_expect(struct rig *rig, const char *fields);
/* The program's tests: each row becomes one, named "group: name"; then the others; then run them all. */
void add_rows(const char *group, const struct scripted *rows, size_t n);
void add_tests(const struct CMUnitTest *tests, size_t n);
int run_suite(void);
#define ADD_ROWS(rows) add_rows(#rows, rows, sizeof(rows) / sizeof((rows)[0]))
#define ADD_TESTS(tests) add_tests(tests, sizeof(tests) / sizeof((tests)[0]))

/* Events. */
int rig_event(struct rig *rig, struct cofi_event event);
void insn(struct rig *rig, uint64_t ip, uint64_t next);
void jcc(struct rig *rig, uint64_t ip, uint64_t next, uint64_t target, bool taken);
void branch(struct rig *rig, enum cofi_event_kind kind, uint64_t ip, uint64_t next, uint64_t target);
/* A far transfer instruction or (kind EVENT) an event, to CPL cpl. */
void far_to(struct rig *rig, enum cofi_event_kind kind, unsigned cause, uint64_t ip, uint64_t next,
            uint64_t target, unsigned cpl);
void mov_cr3(struct rig *rig, uint64_t ip, uint64_t next, uint64_t cr3);
void clock_at(struct rig *rig, enum cofi_event_kind kind, uint64_t tsc, uint64_t cycles);

#endif

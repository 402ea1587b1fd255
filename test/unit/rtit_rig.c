/* SPDX-License-Identifier: MIT
 * A unit on a bench: events in, packets out as text, read by the plain reader. */
#include "unit/rtit_rig.h"

#include "unit/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct rig *rig = opaque;
    if (rig->n + n > (rig->limit ? rig->limit : sizeof rig->bytes))
        return COFI_ERR_FULL;
    memcpy(rig->bytes + rig->n, bytes, n);
    rig->n += n;
    return 0;
}

void rig_open(struct rig *rig, const struct cofi_unit_config *config)
{
    struct cofi_unit_config c = config ? *config : (struct cofi_unit_config){.size = sizeof c};
    *rig = (struct rig){.context = {.vmcs = UINT64_MAX, .cpl = 3, .mode = 64, .iflag = true, .cr0_pg = true}};
    c.size = sizeof c;
    c.gen = COFI_RTIT;
    c.explain = vector_wanted() ? vector_packet : c.explain;
    if (!c.memory.write)
        c.sink = (struct cofi_sink){take, rig};
    assert_int_equal(cofi_unit_open(&rig->unit, &c), 0);
    cofi_unit_context(rig->unit, &rig->context, 0x800);
    rig_read(rig, MSR_CTL);
}

void rig_close(struct rig *rig) { cofi_unit_close(rig->unit); }

void rig_write(struct rig *rig, uint32_t msr, uint64_t value)
{
    assert_int_equal(cofi_unit_wrmsr(rig->unit, msr, value), 0);
}

uint64_t rig_read(struct rig *rig, uint32_t msr)
{
    uint64_t value = 0;
    assert_int_equal(cofi_unit_rdmsr(rig->unit, msr, &value), 0);
    return value;
}

void rig_field(struct rig *rig, const char *name, uint64_t value)
{
    assert_int_equal(cofi_unit_set_field(rig->unit, name, value), 0);
    rig->plain.cycle_acc = rig_read(rig, MSR_CTL) >> 1 & 1;
}

void rig_start(struct rig *rig, uint64_t more)
{
    rig_write(rig, MSR_EVENTS, 7 | 6 << 3);
    rig_write(rig, MSR_CTL, 1 | 1 << 2 | 1 << 3 | more);
    rig_field(rig, "trace_active", 1);
    rig_packets(rig);
}

const char *rig_packets(struct rig *rig)
{
    size_t at = 0;
    cofi_unit_drain(rig->unit);
    rig->text[0] = 0;
    while (rig->seen < rig->n) {
        struct plain_packet packet;
        int size = plain_read(&rig->plain, rig->bytes + rig->seen, rig->n - rig->seen, &packet);
        assert_true(size > 0);
        char one[64];
        plain_text(&packet, one, sizeof one);
        at += (size_t)snprintf(rig->text + at, sizeof rig->text - at, "%s%s", at ? "; " : "", one);
        assert_true(at < sizeof rig->text);
        rig->seen += (size_t)size;
    }
    return rig->text;
}

int rig_event(struct rig *rig, struct cofi_event event)
{
    if (event.context_set)
        rig->context = event.after;
    return cofi_unit_event(rig->unit, &event);
}

void insn(struct rig *rig, uint64_t ip, uint64_t next)
{
    assert_int_equal(rig_event(rig, (struct cofi_event){.kind = COFI_EV_INSN, .ip = ip, .next = next}), 0);
}

void jcc(struct rig *rig, uint64_t ip, uint64_t next, uint64_t target, bool taken)
{
    struct cofi_event e = {.kind = COFI_EV_JCC, .ip = ip, .next = next, .target = target, .taken = taken};
    assert_int_equal(rig_event(rig, e), 0);
}

void branch(struct rig *rig, enum cofi_event_kind kind, uint64_t ip, uint64_t next, uint64_t target)
{
    struct cofi_event e = {.kind = (uint8_t)kind, .ip = ip, .next = next, .target = target};
    assert_int_equal(rig_event(rig, e), 0);
}

void far_to(struct rig *rig, enum cofi_event_kind kind, unsigned cause, uint64_t ip, uint64_t next,
            uint64_t target, unsigned cpl)
{
    struct cofi_event e = {.kind = (uint8_t)kind, .cause = (uint8_t)cause, .ip = ip, .next = next,
                           .target = target, .context_set = true, .after = rig->context};
    e.after.cpl = (uint8_t)cpl;
    assert_int_equal(rig_event(rig, e), 0);
}

void mov_cr3(struct rig *rig, uint64_t ip, uint64_t next, uint64_t cr3)
{
    struct cofi_event e = {.kind = COFI_EV_MOV_CR3, .ip = ip, .next = next, .context_set = true,
                           .after = rig->context};
    e.after.cr3 = cr3;
    assert_int_equal(rig_event(rig, e), 0);
}

void clock_at(struct rig *rig, enum cofi_event_kind kind, uint64_t tsc, uint64_t cycles)
{
    assert_int_equal(rig_event(rig, (struct cofi_event){.kind = (uint8_t)kind, .tsc = tsc, .cycles = cycles}), 0);
}

/* Calls each on every "name=hex". */
static void each_field(struct rig *rig, const char *fields, void (*each)(struct rig *, const char *, uint64_t))
{
    char text[512], *save = NULL;
    snprintf(text, sizeof text, "%s", fields ? fields : "");
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = 0;
        each(rig, word, strtoull(equals + 1, NULL, 16));
    }
}

void rig_fields(struct rig *rig, const char *fields)
{
    each_field(rig, "filter_event_id=7 tracestop_event_id=6 os=1 user=1", rig_field);
    each_field(rig, fields, rig_field);
}

void rig_enable(struct rig *rig)
{
    rig_field(rig, "trace_en", 1);
    rig_field(rig, "trace_active", 1);
}

void rig_events(struct rig *rig, const char *lines)
{
    char text[2048], *save = NULL;
    assert_true(snprintf(text, sizeof text, "%s", lines ? lines : "") < (int)sizeof text);
    for (char *line = strtok_r(text, ";", &save); line; line = strtok_r(NULL, ";", &save)) {
        struct cofi_event event;
        struct cofi_error error = {0};
        if (cofi_event_parse(line, &rig->context, &event, &error) < 0)
            fail_msg("'%s': %s", line, error.text);
        vector_event(&event, &rig->context);
        int status = rig_event(rig, event);
        if (status < 0)
            fail_msg("'%s': %s", line, cofi_error_name(status));
    }
}

static void expect(struct rig *rig, const char *name, uint64_t expected)
{
    uint64_t value = 0;
    assert_int_equal(cofi_unit_get_field(rig->unit, name, &value), 0);
    if (value != expected)
        fail_msg("%s is %llx, not %llx", name, (unsigned long long)value, (unsigned long long)expected);
}

void rig_expect(struct rig *rig, const char *fields) { each_field(rig, fields, expect); }

static struct CMUnitTest suite[512];
static size_t suite_n;

static const char *name_of(const struct scripted *row)
{
    size_t i = 0;
    while (i < suite_n && suite[i].initial_state != row)
        i++;
    return i < suite_n ? suite[i].name : row->name;
}

static void vector_field(struct rig *rig, const char *name, uint64_t value)
{
    (void)rig;
    vector_line("    %s=0x%" PRIx64, name, value);
}

static void vector_set(struct rig *rig, const char *name, uint64_t value)
{
    (void)rig;
    vector_line("set %s=0x%" PRIx64, name, value);
}

static void begin_vector(struct rig *rig, const struct scripted *s)
{
    vector_config(s->config);
    each_field(rig, s->fields, vector_set);
    vector_line("set trace_en=1\nset trace_active=1\nevents");
}

static void end_vector(struct rig *rig, const struct scripted *s)
{
    vector_made(rig->bytes, rig->n);
    if (s->after)
        vector_line("registers");
    each_field(rig, s->after, vector_field);
    vector_end();
}

static void run_scripted(void **state)
{
    const struct scripted *s = *state;
    static struct rig rig;
    vector_begin(name_of(s));
    rig_open(&rig, s->config);
    rig_fields(&rig, s->fields);
    rig_enable(&rig);
    begin_vector(&rig, s);
    rig_events(&rig, s->prepare);
    rig_packets(&rig);
    if (s->prepare)
        vector_line("    drain");
    rig_events(&rig, s->events);
    assert_packets(&rig, s->packets);
    rig_expect(&rig, s->after);
    end_vector(&rig, s);
    rig_close(&rig);
}

void add_tests(const struct CMUnitTest *tests, size_t n)
{
    for (size_t i = 0; i < n; i++)
        suite[suite_n++] = tests[i];
}

void add_rows(const char *group, const struct scripted *rows, size_t n)
{
    static char names[512][160];
    for (size_t i = 0; i < n; i++) {
        snprintf(names[suite_n], sizeof names[0], "%s: %s", group, rows[i].name);
        suite[suite_n] = (struct CMUnitTest){names[suite_n], run_scripted, NULL, NULL, (void *)(uintptr_t)&rows[i]};
        suite_n++;
    }
}

int run_suite(void) { return _cmocka_run_group_tests("tests", suite, suite_n, NULL, NULL); }

/* SPDX-License-Identifier: MIT
 * A scenario's setup and events -> a unit's packets and registers. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/error.h>
#include <cofi/insn.h>
#include <cofi/output.h>

#include "cli.h"
#include "registers.h"
#include "sim.h"

/* ---- what the unit calls ---- */

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct sim *sim = opaque;
    while (sim->room - sim->n < n) {
        size_t room = sim->room ? 2 * sim->room : 4096;
        uint8_t *more = realloc(sim->bytes, room);
        if (!more) {
            sim->overrun = true;
            return COFI_ERR_FULL;
        }
        sim->bytes = more;
        sim->room = room;
    }
    memcpy(sim->bytes + sim->n, bytes, n);
    sim->n += n;
    return 0;
}

static int read_memory(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    struct sim *sim = opaque;
    if (address >= sim->memory_n || sim->memory_n - address < n)
        return COFI_ERR_RANGE;
    memcpy(bytes, sim->memory + address, n);
    return 0;
}

static uint64_t field(const struct sim *sim, const char *name)
{
    uint64_t value = 0;
    cofi_unit_get_field(sim->unit, name, &value);
    return value;
}

/* Weakly ordered lines, as a trace hub sees them, to a collector that restores their order [RTIT 2.3.2]. */
static int collect(struct sim *sim, uint64_t address, const uint8_t *bytes, size_t n)
{
    uint64_t mask = field(sim, "mask_value") << 6 | 0x3f, base = field(sim, "base_phys_addr") << 6 & ~mask;
    if (sim->reorder && (base != sim->region_base || mask != sim->region_mask)) {
        cofi_reorder_close(sim->reorder);
        sim->reorder = NULL;
    }
    sim->region_base = base;
    sim->region_mask = mask;
    int status = sim->reorder ? 0
                              : cofi_reorder_open(&sim->reorder, (uint32_t)mask + 1,
                                                  (uint32_t)(sim->start_offset & mask), (struct cofi_sink){take, sim});
    if (n == 1 && bytes[0] == 0xc1 && !field(sim, "dest")) /* TraceSTOP has a place of its own, and
                                                            * counts [RTIT Table 4] */
        address = base + ((field(sim, "offset") - 1) & mask);
    return status < 0 ? status : cofi_reorder_write(sim->reorder, (uint32_t)(address - base), bytes, n);
}

static int write_memory(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    struct sim *sim = opaque;
    if (address >= sim->memory_n || sim->memory_n - address < n)
        return COFI_ERR_RANGE;
    memcpy(sim->memory + address, bytes, n);
    if (sim->events && !sim->json)
        fprintf(sim->events, "  write of %zu bytes at %" PRIx64 "\n", n, address);
    return sim->config.weak_lines ? collect(sim, address, bytes, n) : take(sim, bytes, n);
}

static void note(void *opaque, const struct cofi_explain *explain)
{
    struct sim *sim = opaque;
    struct sim_made none, *m = &none; /* silences are shown, not kept */
    if (explain->packet) {
        if (!array_grow(&sim->made, sim->made_n, &sim->made_room, sizeof *sim->made)) {
            sim->overrun = true;
            return;
        }
        m = &sim->made[sim->made_n++];
    }
    *m = (struct sim_made){.offset = explain->offset, .rule = explain->rule, .tag = explain->tag, .line = sim->line};
    if (explain->packet) {
        m->packet = *explain->packet;
        if (cofi_packet_traits((enum cofi_packet_kind)m->packet.kind) & COFI_TRAIT_HAS_IP)
            m->has_ip = cofi_ip_expand(&m->packet, sim->last_ip, &m->ip);
        if (m->has_ip && m->packet.kind != COFI_RTIT_BUFFOVF)
            sim->last_ip = m->ip;
        if (m->packet.kind == COFI_PT_PSB || m->packet.kind == COFI_PT_OVF)
            sim->last_ip = 0;
    }
    if (sim->events)
        sim_print_made(sim->events, sim, m, true);
}

/* ---- events ---- */

static bool branches(const struct cofi_event *event)
{
    return event->kind == COFI_EV_JCC ? event->taken
                                      : (event->kind >= COFI_EV_JMP && event->kind <= COFI_EV_FAR) ||
                                            event->kind == COFI_EV_EVENT || event->kind == COFI_EV_XABORT;
}

static int remember(struct sim *sim, uint64_t ip)
{
    if (!array_grow(&sim->ran, sim->ran_n, &sim->ran_room, sizeof *sim->ran))
        return EXIT_ENVIRONMENT;
    sim->ran[sim->ran_n++] = ip;
    return 0;
}

int sim_send(struct sim *sim, struct cofi_event *event)
{
    if (sim->events && !sim->json) {
        char text[512];
        cofi_event_print(event, &sim->context, text, sizeof text);
        fprintf(sim->events, "%s\n", text);
    }
    int status = cofi_unit_event(sim->unit, event);
    if (status < 0)
        return sim_fail(sim->scenario, sim->line, "the unit says: %s", cofi_error_text(status));
    if (event->context_set)
        sim->context = event->after;
    if (event->kind < COFI_EV_EVENT && remember(sim, event->ip))
        return EXIT_ENVIRONMENT;
    if (event->kind == COFI_EV_BOUNDARY)
        sim->ip = event->ip;
    else if (branches(event))
        sim->ip = event->target;
    else if (event->kind < COFI_EV_EVENT)
        sim->ip = event->next;
    return 0;
}

/* Addresses that the line leaves out come from the code. */
static int complete(struct sim *sim, const char *text, struct cofi_event *event)
{
    struct cofi_insn insn;
    if (event->kind > COFI_EV_EVENT)
        return 0;
    if (!strstr(text, " ip="))
        event->ip = sim->ip;
    if (event->kind == COFI_EV_EVENT || strstr(text, "next=") || sim->scenario->code_n == 0)
        return 0;
    uint64_t ip = sim->ip;
    sim->ip = event->ip;
    int status = sim_insn(sim, &insn);
    sim->ip = ip;
    if (status == 0)
        event->next = event->ip + insn.length;
    return status;
}

static int run_event(struct sim *sim, const char *text)
{
    struct cofi_event event;
    struct cofi_error error = {0};
    if (cofi_event_parse(text, &sim->context, &event, &error) < 0)
        return sim_fail(sim->scenario, sim->line, "%s (column %" PRIu64 ")", error.text, error.offset + 1);
    int status = complete(sim, text, &event);
    return status ? status : sim_send(sim, &event);
}

/* "field=value field=value": registers, by the manual's names. */
static int set_fields(struct sim *sim, char *text)
{
    for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
        char *equals = strchr(word, '='), *end;
        errno = 0;
        uint64_t value = equals ? strtoull(equals + 1, &end, 0) : 0;
        if (!equals || end == equals + 1 || *end || errno || equals[1] == '-')
            return sim_fail(sim->scenario, sim->line, "'%s': FIELD=NUMBER is needed (0x for hexadecimal)", word);
        *equals = 0;
        int status = cofi_unit_set_field(sim->unit, word, value);
        if (status < 0)
            return sim_fail(sim->scenario, sim->line, "%s: %s", word, cofi_error_text(status));
    }
    return 0;
}

/* What follows is "gp", or nothing. */
static bool ends(const char *rest, bool *gp)
{
    rest += strspn(rest, " \t");
    *gp = !strcmp(rest, "gp");
    return *gp || !*rest;
}

/* "wrmsr MSR VALUE [gp]", both hexadecimal; with gp the write must fault. */
static int write_register(struct sim *sim, char *text)
{
    char *end;
    bool gp;
    errno = 0;
    uint64_t msr = strtoull(text, &end, 16);
    char *value_text = end + strspn(end, " \t");
    uint64_t value = strtoull(value_text, &end, 16);
    if (end == value_text || errno || msr > UINT32_MAX || !ends(end, &gp))
        return sim_fail(sim->scenario, sim->line, "wrmsr MSR VALUE [gp] is needed, in hexadecimal");
    int status = cofi_unit_wrmsr(sim->unit, (uint32_t)msr, value);
    if (gp && status != COFI_ERR_GP)
        return sim_fail(sim->scenario, sim->line, "the write did not fault");
    if (!gp && status < 0)
        return sim_fail(sim->scenario, sim->line, "wrmsr %" PRIx64 ": %s", msr, cofi_error_text(status));
    return 0;
}

/* "rdmsr MSR [gp]", hexadecimal; with gp the read must fault. */
static int read_register(struct sim *sim, const char *text)
{
    uint64_t value;
    char *end;
    bool gp;
    uint32_t msr = (uint32_t)strtoul(text, &end, 16);
    if (end == text || !ends(end, &gp))
        return sim_fail(sim->scenario, sim->line, "rdmsr MSR [gp] is needed, in hexadecimal");
    int status = cofi_unit_rdmsr(sim->unit, msr, &value);
    if (gp && status != COFI_ERR_GP)
        return sim_fail(sim->scenario, sim->line, "the read did not fault");
    if (!gp && status < 0)
        return sim_fail(sim->scenario, sim->line, "rdmsr %" PRIx32 ": %s", msr, cofi_error_text(status));
    if (sim->events && !sim->json && gp)
        fprintf(sim->events, "  %" PRIx32 " faults\n", msr);
    else if (sim->events && !sim->json)
        fprintf(sim->events, "  %" PRIx32 " reads %" PRIx64 "\n", msr, value);
    return 0;
}

/* "state ip=401000 cpl=0 …" */
static int set_state(struct sim *sim, const char *rest)
{
    char line[SIM_LINE + 16];
    struct cofi_event event;
    struct cofi_error error = {0};
    snprintf(line, sizeof line, "boundary %s", rest);
    if (cofi_event_parse(line, &sim->context, &event, &error) < 0)
        return sim_fail(sim->scenario, sim->line, "%s", error.text);
    sim->context = event.after;
    if (strstr(line, " ip="))
        sim->ip = event.ip;
    cofi_unit_context(sim->unit, &sim->context, sim->ip);
    return 0;
}

/* The line's first word, if it is this one; *rest behind it. */
static bool word_is(char *line, const char *word, char **rest)
{
    size_t n = strlen(word);
    if (strncmp(line, word, n) || (line[n] && line[n] != ' ' && line[n] != '\t'))
        return false;
    *rest = line + n + strspn(line + n, " \t");
    return true;
}

static int run_line(struct sim *sim, const struct sim_line *line)
{
    char text[SIM_LINE], *rest;
    sim->line = line->number;
    snprintf(text, sizeof text, "%s", line->text);
    if (!field(sim, "trigger_en"))
        sim->start_offset = field(sim, "offset");
    if (word_is(text, "set", &rest))
        return set_fields(sim, rest);
    if (word_is(text, "wrmsr", &rest) && !strchr(rest, '='))
        return write_register(sim, rest);
    if (word_is(text, "rdmsr", &rest))
        return read_register(sim, rest);
    if (word_is(text, "drain", &rest))
        return cofi_unit_drain(sim->unit), 0;
    if (word_is(text, "reset", &rest)) {
        cofi_unit_reset(sim->unit, !strcmp(rest, "init")   ? COFI_RESET_INIT
                                   : !strcmp(rest, "warm") ? COFI_RESET_WARM
                                                           : COFI_RESET_COLD);
        return 0;
    }
    int status = sim_step_line(sim, text);
    return status >= 0 ? status : run_event(sim, text);
}

/* ---- setup ---- */

static int set_errata(struct sim *sim, char *text)
{
    for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
        uint64_t bit;
        if (word[0] == 'E')
            word[0] = 'e';
        if (cofi_unit_erratum(sim->config.gen, word, &bit) < 0)
            return sim_fail(sim->scenario, sim->line, "'%s' is no erratum of %s", word,
                            sim->config.gen == COFI_RTIT ? "RTIT: e1 to e8"
                                                         : "PT: bdm70, skd007, … (include/cofi/unit.h)");
        sim->config.errata |= bit;
    }
    return 0;
}

static int set_buffer(struct sim *sim, const char *text)
{
    unsigned bytes, drain_bytes = 0, drain_cycles = 0;
    if (sscanf(text, "%u %u %u", &bytes, &drain_bytes, &drain_cycles) < 1 || bytes > 1 << 24)
        return sim_fail(sim->scenario, sim->line, "buffer BYTES [DRAIN-BYTES CYCLES] is needed");
    sim->config.buffer_bytes = bytes;
    sim->config.drain_bytes = drain_bytes;
    sim->config.drain_cycles = drain_cycles;
    return 0;
}

static int set_memory(struct sim *sim, const char *text)
{
    static const char form[] =
        "memory BYTES [weak LINES [SEED]] is needed, once; BYTES up to 0x10000000, LINES up to 16, "
        "weak for RTIT";
    char *rest;
    uint64_t n = strtoull(text, &rest, 0);
    unsigned lines = 0;
    unsigned long long seed = 1;
    int words = sscanf(rest, " weak %u %llu", &lines, &seed);
    if (n == 0 || n > 1 << 28 || sim->memory || (*rest && words < 1) || (words > 0 && (!lines || lines > 16)))
        return sim_fail(sim->scenario, sim->line, form);
    sim->config.weak_lines = lines;
    sim->config.weak_seed = seed;
    sim->memory = calloc(1, n);
    if (!sim->memory)
        return EXIT_ENVIRONMENT;
    sim->memory_n = n;
    sim->config.memory = (struct cofi_memory){read_memory, write_memory, sim};
    return 0;
}

/* Whether a PT unit can be that processor. */
static bool is_model(const char *name)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = name};
    struct cofi_unit *unit = NULL;
    int status = cofi_unit_open(&unit, &config);
    cofi_unit_close(unit);
    return status != COFI_ERR_RANGE;
}

/* Lines that must be known before the unit opens. -1: it is none. */
static int configure(struct sim *sim, const struct sim_line *line)
{
    char text[SIM_LINE], *rest, *save = NULL;
    sim->line = line->number;
    snprintf(text, sizeof text, "%s", line->text);
    if (word_is(text, "errata", &rest))
        return set_errata(sim, rest);
    if (word_is(text, "buffer", &rest))
        return set_buffer(sim, rest);
    if (word_is(text, "memory", &rest))
        return set_memory(sim, rest);
    if (!word_is(text, "unit", &rest))
        return -1;
    const char *gen = strtok_r(rest, " \t", &save), *model = strtok_r(NULL, " \t", &save);
    if (!gen || (strcmp(gen, "rtit") && strcmp(gen, "pt")))
        return sim_fail(sim->scenario, sim->line, "unit rtit or unit pt [MODEL] is needed");
    sim->config.gen = *gen == 'r' ? COFI_RTIT : COFI_PT;
    free((char *)sim->config.model);
    sim->config.model = model ? strdup(model) : NULL;
    if (model && (sim->config.gen == COFI_RTIT || !is_model(model)))
        return sim_fail(sim->scenario, sim->line, "no model '%s'; 'cofi caps --list' names those of PT, RTIT has none",
                        model);
    return 0;
}

static int open_unit(struct sim *sim)
{
    const struct scenario *s = sim->scenario;
    for (size_t i = 0; i < s->n[SIM_SETUP]; i++) {
        int status = configure(sim, &s->lines[SIM_SETUP][i]);
        if (status > 0)
            return status;
    }
    int status = cofi_unit_open(&sim->unit, &sim->config);
    if (status < 0)
        return sim_fail(s, 1, "the unit does not open: %s", cofi_error_text(status));
    uint64_t value;
    if (sim->config.gen == COFI_RTIT)
        cofi_unit_rdmsr(sim->unit, RTIT_CTL, &value); /* [RTIT 3.3.1] */
    cofi_unit_context(sim->unit, &sim->context, sim->ip);
    return 0;
}

int sim_run(struct sim *sim, const struct scenario *scenario)
{
    sim->scenario = scenario;
    sim->config = (struct cofi_unit_config){.size = sizeof sim->config, .gen = COFI_RTIT, .sink = {take, sim},
                                            .explain = note, .opaque = sim};
    sim->context = (struct cofi_context){.vmcs = UINT64_MAX, .cpl = 3, .mode = 64, .iflag = true, .cr0_pg = true};
    int status = open_unit(sim);
    for (size_t i = 0; i < scenario->n[SIM_SETUP] && status == 0; i++) {
        const struct sim_line *line = &scenario->lines[SIM_SETUP][i];
        char text[SIM_LINE], *rest;
        snprintf(text, sizeof text, "%s", line->text);
        sim->line = line->number;
        if (word_is(text, "unit", &rest) || word_is(text, "errata", &rest) || word_is(text, "buffer", &rest) ||
            word_is(text, "memory", &rest))
            continue;
        status = word_is(text, "state", &rest) ? set_state(sim, rest) : run_line(sim, line);
    }
    for (size_t i = 0; i < scenario->n[SIM_EVENTS] && status == 0; i++)
        status = run_line(sim, &scenario->lines[SIM_EVENTS][i]);
    if (status == 0)
        cofi_unit_drain(sim->unit);
    if (status == 0 && sim->reorder && cofi_reorder_waiting(sim->reorder)) {
        complain("the output has a hole (RTIT_OFFSET written?): %u bytes behind it are lost",
                 cofi_reorder_waiting(sim->reorder));
        status = EXIT_DATA;
    }
    if (status == 0 && sim->overrun) {
        complain("out of memory");
        status = EXIT_ENVIRONMENT;
    }
    return status;
}

void sim_close(struct sim *sim)
{
    cofi_unit_close(sim->unit);
    cofi_reorder_close(sim->reorder);
    free((char *)sim->config.model);
    free(sim->bytes);
    free(sim->made);
    free(sim->ran);
    free(sim->memory);
}

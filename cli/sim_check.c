/* SPDX-License-Identifier: MIT
 * What a scenario's run gave -> text, and its differences from what the scenario expects. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cofi/error.h>
#include <cofi/flow.h>
#include <cofi/present.h>

#include "cli.h"
#include "sim.h"

/* ---- printing ---- */

static void packet_text(const struct sim_made *m, char *out, size_t n)
{
    int used = cofi_packet_print(&m->packet, out, n);
    if (m->has_ip && used >= 0 && (size_t)used < n)
        snprintf(out + used, n - (size_t)used, "%*sip %" PRIx64, used < 34 ? 34 - used : 1, "", m->ip);
}

/* What each object begins with. */
static void begin_json(FILE *out, const struct scenario *s)
{
    char name[256];
    fputs("{\"v\":1,", out);
    if (s->name)
        fprintf(out, "\"scenario\":%s,", cofi_json_string(s->name, name, sizeof name));
}

static void print_bytes(FILE *out, const struct sim *sim, uint64_t from, size_t n)
{
    if (from + n > sim->n)
        return;
    fputs(",\"bytes\":\"", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%02x", sim->bytes[from + i]);
    putc('"', out);
}

static void print_json(FILE *out, const struct sim *sim, const struct sim_made *m, bool rule)
{
    char text[128] = "";
    begin_json(out, sim->scenario);
    fprintf(out, "\"line\":%u,\"offset\":%" PRIu64, m->line, m->offset);
    if (m->packet.kind != COFI_PKT_NONE) {
        cofi_packet_print(&m->packet, text, sizeof text);
        fprintf(out, ",\"packet\":\"%s\",\"size\":%u", text, m->packet.size);
    }
    if (m->has_ip)
        fprintf(out, ",\"ip\":\"%" PRIx64 "\"", m->ip);
    if (m->packet.kind != COFI_PKT_NONE && !rule)
        print_bytes(out, sim, m->offset, m->packet.size);
    fprintf(out, ",\"rule\":\"%s\",\"tag\":\"%s\"}\n", m->rule ? m->rule : "", m->tag ? m->tag : "");
}

void sim_print_made(FILE *out, const struct sim *sim, const struct sim_made *m, bool rule)
{
    char text[160] = "-";
    if (sim->json) {
        print_json(out, sim, m, rule);
        return;
    }
    if (m->packet.kind != COFI_PKT_NONE)
        packet_text(m, text, sizeof text);
    if (!rule)
        fprintf(out, "%016" PRIx64 "  %s\n", m->offset, text);
    else if (m->packet.kind != COFI_PKT_NONE)
        fprintf(out, "  %08" PRIx64 "  %-54s %s %s\n", m->offset, text, m->rule ? m->rule : "", m->tag ? m->tag : "");
    else
        fprintf(out, "  nothing: %s %s\n", m->rule ? m->rule : "", m->tag ? m->tag : "");
}

void sim_print_registers(FILE *out, const struct sim *sim)
{
    struct cofi_unit_register reg;
    for (size_t i = 0; cofi_unit_register_at(sim->unit, i, &reg) == 0; i++) {
        if (sim->json) {
            begin_json(out, sim->scenario);
            fprintf(out, "\"register\":\"%s\",\"msr\":\"%" PRIx32 "\",\"value\":\"%" PRIx64 "\"}\n", reg.name, reg.msr,
                    reg.value);
        } else {
            fprintf(out, "%-26s %4" PRIx32 "  %016" PRIx64 "\n", reg.name, reg.msr, reg.value);
        }
    }
}

/* ---- packets ---- */

/* The i-th packet proper, null past the last. */
static const struct sim_made *next_packet(const struct sim *sim, size_t *i)
{
    while (*i < sim->made_n && sim->made[*i].packet.kind == COFI_PKT_NONE)
        ++*i;
    return *i < sim->made_n ? &sim->made[(*i)++] : NULL;
}

/* An expected line is "NAME ADDRESS", with the address as a person writes it, or a packet's full text. */
static bool matches(const struct sim *sim, const char *expected, const struct sim_made *m)
{
    char name[32], text[128], canonical[128];
    uint64_t ip;
    int end = 0;
    struct cofi_packet packet;
    if (m->has_ip && sscanf(expected, "%31s %" SCNx64 "%n", name, &ip, &end) == 2 && expected[end] == 0)
        return !strcasecmp(name, cofi_packet_name((enum cofi_packet_kind)m->packet.kind)) && ip == m->ip;
    if (!strcasecmp(expected, cofi_packet_name((enum cofi_packet_kind)m->packet.kind)))
        return true; /* the name alone says: whatever it carries */
    cofi_packet_print(&m->packet, text, sizeof text);
    if (cofi_packet_parse(sim->config.gen, expected, &packet, NULL) != 0)
        return false;
    cofi_packet_print(&packet, canonical, sizeof canonical);
    return !strcmp(text, canonical);
}

static int check_packets(struct sim *sim)
{
    const struct scenario *s = sim->scenario;
    size_t i = 0, at = 0;
    int bad = 0;
    for (const struct sim_made *m = next_packet(sim, &at); m || i < s->n[SIM_PACKETS]; m = next_packet(sim, &at), i++) {
        char text[160];
        const struct sim_line *line = i < s->n[SIM_PACKETS] ? &s->lines[SIM_PACKETS][i] : NULL;
        if (m)
            packet_text(m, text, sizeof text);
        if (m && line && matches(sim, line->text, m))
            continue;
        if (line)
            printf("%s:%u: expected packet: %s\n", s->path, line->number, line->text);
        if (m)
            printf("%s:%u: made packet: %s (%s %s)\n", s->path, m->line, text, m->rule, m->tag);
        bad++;
        if (!m || !line)
            break; /* the rest follows from it */
    }
    return bad;
}

/* ---- bytes ---- */

/* Where the trace is compared. */
struct compared {
    const struct sim *sim;
    size_t at;
};

/* A line of two digits a byte, with blanks between bytes or none. Returns how many differ: one at most. */
static int check_byte_line(struct compared *c, const struct sim_line *line)
{
    const struct scenario *s = c->sim->scenario;
    for (const char *text = line->text; *text; text += 2 + strspn(text + 2, " \t"), c->at++) {
        unsigned byte, made = c->at < c->sim->n ? c->sim->bytes[c->at] : 256;
        if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) || sscanf(text, "%2x", &byte) != 1)
            return sim_fail(s, line->number, "'%s' does not begin with two hexadecimal digits", text);
        if (byte == made)
            continue;
        printf("%s:%u: byte %zu: expected %02x, ", s->path, line->number, c->at, byte);
        printf(made < 256 ? "it is %02x\n" : "the trace ends\n", made);
        return 1;
    }
    return 0;
}

static int check_bytes(const struct sim *sim)
{
    const struct scenario *s = sim->scenario;
    struct compared c = {sim, 0};
    for (size_t i = 0; i < s->n[SIM_BYTES]; i++)
        if (check_byte_line(&c, &s->lines[SIM_BYTES][i]))
            return 1;
    if (c.at == sim->n)
        return 0;
    printf("%s: expected %zu bytes, the trace has %zu\n", s->path, c.at, sim->n);
    return 1;
}

/* ---- registers ---- */

static int check_registers(struct sim *sim)
{
    const struct scenario *s = sim->scenario;
    int bad = 0;
    for (size_t i = 0; i < s->n[SIM_REGISTERS]; i++) {
        char text[SIM_LINE];
        snprintf(text, sizeof text, "%s", s->lines[SIM_REGISTERS][i].text);
        for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
            char *equals = strchr(word, '=');
            uint64_t value = 0, expected;
            bool number = equals && parse_number(equals + 1, UINT64_MAX, &expected);
            if (number)
                *equals = 0;
            bool known = number && cofi_unit_get_field(sim->unit, word, &value) == 0;
            if (known && value == expected)
                continue;
            if (!number)
                printf("%s:%u: '%s': FIELD=NUMBER is needed (0x for hexadecimal)\n", s->path,
                       s->lines[SIM_REGISTERS][i].number, word);
            else if (known)
                printf("%s:%u: expected %s 0x%" PRIx64 ", it is 0x%" PRIx64 "\n", s->path,
                       s->lines[SIM_REGISTERS][i].number, word, expected, value);
            else
                printf("%s:%u: no field '%s'\n", s->path, s->lines[SIM_REGISTERS][i].number, word);
            bad++;
        }
    }
    return bad;
}

/* ---- flow ---- */

struct expected_flow {
    const struct scenario *scenario;
    size_t i; /* lines matched */
    int bad;
};

/* One decoded item against the next expected line: an address, or the name of a flow event. */
static void compare(struct expected_flow *e, const char *text)
{
    const struct scenario *s = e->scenario;
    const struct sim_line *line = e->i < s->n[SIM_FLOW] ? &s->lines[SIM_FLOW][e->i] : NULL;
    if (e->bad)
        return;
    if (line && !strcasecmp(line->text, text)) {
        e->i++;
    } else {
        printf("%s:%u: decoded flow has %s, expected %s\n", s->path, line ? line->number : 0, text,
               line ? line->text : "its end");
        e->bad++;
    }
}

static void compare_event(struct expected_flow *e, const struct cofi_flow_event *event)
{
    if (event->kind == COFI_FLOW_GAP)
        compare(e, event->a == 8 ? "gap e8" : "gap");
    else if (event->kind == COFI_FLOW_OVERFLOW)
        compare(e, event->a == 4 ? "overflow e4" : "overflow");
}

static int walk(struct cofi_flow *flow, struct expected_flow *e)
{
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events,
                                    .events_max = 64};
    int status;
    while ((status = cofi_flow_next(flow, &batch)) > 0) {
        size_t at = 0;
        for (size_t b = 0; b <= batch.blocks_n; b++) {
            for (; at < batch.events_n && events[at].at == b; at++)
                compare_event(e, &events[at]);
            for (uint32_t i = 0; b < batch.blocks_n && i < blocks[b]->n; i++) {
                char text[32];
                snprintf(text, sizeof text, "%" PRIx64, blocks[b]->insns[i].ip);
                compare(e, text);
            }
        }
    }
    return status;
}

/* The registers that a decoder is told. */
static void tell_registers(const struct sim *sim, struct cofi_flow_config *config)
{
    static const char *const base[] = {"lip0", "lip1"}, *const limit[] = {"lip2", "lip3"};
    struct cofi_unit_register reg;
    unsigned n;
    char end;
    for (size_t i = 0; cofi_unit_register_at(sim->unit, i, &reg) == 0; i++) {
        if (!strcmp(reg.name, "RTIT_CTL") || !strcmp(reg.name, "IA32_RTIT_CTL")) {
            config->ctl = reg.value;
            config->ctl_known = true;
        } else if (!strcmp(reg.name, "RTIT_EVENTS")) {
            config->events = (uint32_t)reg.value;
            config->ranges_known = true;
        } else if (sscanf(reg.name, "IA32_RTIT_ADDR%u_%c", &n, &end) == 2 && n < 4) {
            *(end == 'A' ? &config->range_base[n] : &config->range_limit[n]) = reg.value;
            config->ranges_known = true;
        }
    }
    for (int i = 0; i < 2 && sim->config.gen == COFI_RTIT; i++) {
        cofi_unit_get_field(sim->unit, base[i], &config->range_base[i]);
        cofi_unit_get_field(sim->unit, limit[i], &config->range_limit[i]);
    }
}

/* The model whose errata, as the decoder knows them, are those of the scenario [PTREF 9.8]. */
static uint16_t cpu_of(const struct cofi_unit_config *config)
{
    uint64_t e = config->errata;
    if (config->gen == COFI_RTIT)
        return 0x37;
    if (e & (COFI_ERRATUM_APL11 | COFI_ERRATUM_APL12 | COFI_ERRATUM_GOLDMONT))
        return 0x5c;
    if (e & COFI_ERRATUM_SKZ84)
        return 0x55;
    return e & (COFI_ERRATUM_BDM64 | COFI_ERRATUM_BDM106) ? 0x3d : 0x5e;
}

static int check_flow(struct sim *sim)
{
    const struct scenario *s = sim->scenario;
    struct cofi_flow_config config;
    struct cofi_image *image;
    struct cofi_flow *flow;
    struct expected_flow e = {.scenario = s};
    uint8_t tail;
    if (!s->has[SIM_FLOW] || cofi_image_open(&image) < 0)
        return 0;
    for (size_t i = 0; i < s->code_n; i++)
        cofi_image_map_bytes(image, 0, s->code[i].address, s->code[i].bytes, s->code[i].n, "scenario");
    cofi_flow_config_init(&config, sim->config.gen);
    tell_registers(sim, &config);
    if (sim->config.errata) { /* a Silvermont, which has them all; for PT a part that has these */
        config.family = 6;
        config.model = cpu_of(&sim->config);
    }
    uint64_t tnt = 1;
    if (sim->config.gen == COFI_RTIT && cofi_unit_get_field(sim->unit, "tnt_buff", &tnt) == 0 && tnt > 1 && tnt < 64) {
        tail = (uint8_t)tnt; /* outcomes not yet in a packet, read back as a debugger would [RTIT 4.2.11] */
        config.tail = &tail;
        config.tail_n = 1;
    }
    config.bytes = sim->bytes;
    config.n = sim->n;
    config.image = image;
    config.mode = sim->context.mode;
    int status = cofi_flow_open(&flow, &config);
    if (status == 0) {
        status = walk(flow, &e);
        cofi_flow_close(flow);
    }
    if (status < 0) {
        printf("%s: the flow cannot be decoded: %s\n", s->path, cofi_error_text(status));
        e.bad++;
    } else if (!e.bad && e.i < s->n[SIM_FLOW]) {
        printf("%s:%u: decoded flow ends, expected %s\n", s->path, s->lines[SIM_FLOW][e.i].number,
               s->lines[SIM_FLOW][e.i].text);
        e.bad++;
    }
    cofi_image_close(image);
    return e.bad;
}

int sim_check(struct sim *sim)
{
    int bad = sim->scenario->has[SIM_PACKETS] ? check_packets(sim) : 0;
    if (!bad && sim->scenario->has[SIM_BYTES])
        bad = check_bytes(sim);
    return bad + check_registers(sim) + check_flow(sim);
}

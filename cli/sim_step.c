/* SPDX-License-Identifier: MIT
 * "taken", "to 401000", "until 401020" and the scenario's code -> events. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "cli.h"
#include "sim.h"

enum { MOST_STEPS = 1000000 }; /* a scenario that runs longer loops */

int sim_insn(struct sim *sim, struct cofi_insn *insn)
{
    const struct scenario *s = sim->scenario;
    for (size_t i = 0; i < s->code_n; i++) {
        uint64_t at = sim->ip - s->code[i].address;
        if (at >= s->code[i].n)
            continue;
        unsigned mode = sim->context.mode ? sim->context.mode : 64;
        if (cofi_insn_decode(insn, mode, sim->ip, s->code[i].bytes + at, s->code[i].n - at) > 0)
            return 0;
        return sim_fail(s, sim->line, "the bytes at %" PRIx64 " are no %u-bit instruction", sim->ip, mode);
    }
    return sim_fail(s, sim->line, "no code at %" PRIx64 ": %s", sim->ip,
                    sim->ip ? "the scenario's code sections end there" : "'state ip=ADDRESS' says where it begins");
}

/* What the next instruction needs from the scenario. */
enum need { NEEDS_NOTHING, NEEDS_OUTCOME, NEEDS_TARGET, NEEDS_EVENT };

static enum need need_of(const struct cofi_insn *insn)
{
    switch ((enum cofi_class)insn->cls) {
    case COFI_CLASS_OTHER:
    case COFI_CLASS_JMP:
    case COFI_CLASS_CALL:
        return NEEDS_NOTHING;
    case COFI_CLASS_JCC:
        return NEEDS_OUTCOME;
    case COFI_CLASS_JMP_IND:
    case COFI_CLASS_CALL_IND:
    case COFI_CLASS_RET:
    case COFI_CLASS_FAR_JMP:
    case COFI_CLASS_FAR_CALL:
    case COFI_CLASS_FAR_RET:
    case COFI_CLASS_VMENTRY:
        return NEEDS_TARGET;
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_VMPTRLD:
    case COFI_CLASS_TSX:
        return NEEDS_EVENT;
    case COFI_CLASS_KINDS:
        break;
    }
    return NEEDS_EVENT;
}

/* Execute one instruction, whose needs are answered in *event (taken; target, after). */
static int execute(struct sim *sim, const struct cofi_insn *insn, struct cofi_event *event)
{
    if (++sim->steps > MOST_STEPS)
        return sim_fail(sim->scenario, sim->line, "more than %d instructions: does the code loop?", MOST_STEPS);
    event->kind = (uint8_t)cofi_event_of_class(insn->cls);
    event->cause = event->kind == COFI_EV_FAR ? insn->far : 0;
    event->size = event->kind == COFI_EV_FAR ? insn->prefixes : 0;
    event->ip = sim->ip;
    event->next = sim->ip + insn->length;
    if (insn->cls == COFI_CLASS_JCC || insn->cls == COFI_CLASS_JMP || insn->cls == COFI_CLASS_CALL)
        event->target = insn->target;
    return sim_send(sim, event);
}

static struct cofi_event fresh(const struct sim *sim)
{
    return (struct cofi_event){.vector = COFI_NO_VECTOR, .after = sim->context};
}

static const char *const needs[] = {"", "taken or not-taken", "'to ADDRESS'", "an event line of its own"};

/* Run until an instruction has this need, and return it, not executed. */
static int run_to(struct sim *sim, enum need need, struct cofi_insn *insn)
{
    for (;;) {
        int status = sim_insn(sim, insn);
        if (status)
            return status;
        enum need has = need_of(insn);
        if (has == need)
            return 0;
        if (has != NEEDS_NOTHING)
            return sim_fail(sim->scenario, sim->line, "the instruction at %" PRIx64 " (%s) needs %s", sim->ip,
                            cofi_class_name((enum cofi_class)insn->cls), needs[has]);
        struct cofi_event event = fresh(sim);
        status = execute(sim, insn, &event);
        if (status)
            return status;
    }
}

static int outcome(struct sim *sim, bool taken)
{
    struct cofi_insn insn;
    int status = run_to(sim, NEEDS_OUTCOME, &insn);
    struct cofi_event event = fresh(sim);
    event.taken = taken;
    return status ? status : execute(sim, &insn, &event);
}

static int one_plain(struct sim *sim)
{
    struct cofi_insn insn;
    int status = sim_insn(sim, &insn);
    if (status)
        return status;
    if (need_of(&insn) != NEEDS_NOTHING)
        return sim_fail(sim->scenario, sim->line, "the instruction at %" PRIx64 " (%s) needs %s", sim->ip,
                        cofi_class_name((enum cofi_class)insn.cls), needs[need_of(&insn)]);
    struct cofi_event event = fresh(sim);
    return execute(sim, &insn, &event);
}

static int address_of(struct sim *sim, const char *word, uint64_t *address)
{
    char *end;
    if (!isxdigit((unsigned char)*word))
        return sim_fail(sim->scenario, sim->line, "a hexadecimal address is needed");
    *address = strtoull(word, &end, 16);
    if (*end && *end != ' ' && *end != '\t')
        return sim_fail(sim->scenario, sim->line, "'%s' does not begin with a hexadecimal address", word);
    return 0;
}

/* "to ADDRESS [: cpl=0 …]" */
static int to(struct sim *sim, const char *rest)
{
    struct cofi_insn insn;
    struct cofi_event event;
    uint64_t target;
    struct cofi_error error = {0};
    char line[SIM_LINE + 16];
    int status = address_of(sim, rest, &target);
    if (status)
        return status;
    snprintf(line, sizeof line, "insn%s", rest + strcspn(rest, " \t"));
    if (cofi_event_parse(line, &sim->context, &event, &error) < 0)
        return sim_fail(sim->scenario, sim->line, "%s", error.text);
    status = run_to(sim, NEEDS_TARGET, &insn);
    event.target = target;
    return status ? status : execute(sim, &insn, &event);
}

static int until(struct sim *sim, const char *rest)
{
    uint64_t address;
    int status = address_of(sim, rest, &address);
    while (status == 0 && sim->ip != address)
        status = one_plain(sim);
    return status;
}

/* If the line begins with this word: what follows it. */
static const char *after(const char *line, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(line, word, n) || (line[n] && line[n] != ' ' && line[n] != '\t'))
        return NULL;
    return line + n + strspn(line + n, " \t");
}

int sim_step_line(struct sim *sim, const char *text)
{
    const char *rest;
    if (after(text, "taken"))
        return outcome(sim, true);
    if (after(text, "not-taken"))
        return outcome(sim, false);
    if ((rest = after(text, "to")))
        return to(sim, rest);
    if ((rest = after(text, "until")))
        return until(sim, rest);
    if (!(rest = after(text, "step")))
        return -1;
    int status = 0;
    for (unsigned long n = *rest ? strtoul(rest, NULL, 10) : 1; n > 0 && status == 0; n--)
        status = one_plain(sim);
    return status;
}

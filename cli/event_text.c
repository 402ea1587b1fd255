/* SPDX-License-Identifier: MIT
 * See event_text.h. */
#include "event_text.h"

#include <inttypes.h>
#include <stdio.h>

#include <cofi/error.h>
#include <cofi/packet.h>

/* What stands behind a colon. */
typedef void details(struct writer *out, const struct cofi_flow_event *event);

static void value(struct writer *out, const struct cofi_flow_event *event)
{
    if (event->value)
        write_format(out, ": 0x%" PRIx64, event->value);
}

static void data(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": 0x%" PRIx64, event->value);
}

static void mode(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": %u-bit", event->a);
    if (event->c)
        write_format(out, ", IF=%u", event->b);
}

static void transaction(struct writer *out, const struct cofi_flow_event *event)
{
    write_text(out, event->a ? ": in a transaction" : event->b ? ": aborted" : ": no transaction");
}

static void code(struct writer *out, const struct cofi_flow_event *event)
{
    value(out, event);
    if (event->a)
        write_text(out, ", another program");
}

static void overflow(struct writer *out, const struct cofi_flow_event *event)
{
    if (event->a == 4)
        write_text(out, ": the TraceSTOP before it had no effect [ERR E4]");
}

static void gap(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": %s, from byte 0x%" PRIx64, cofi_error_text(event->cause), event->offset);
    if (event->end == UINT64_MAX)
        write_text(out, " to the end");
    else
        write_format(out, " to 0x%" PRIx64, event->end);
}

/* ---- power [SDM Power Event Tracing] ---- */

static void mwait(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": hints 0x%x, extensions 0x%x", event->a, event->b);
}

/* As MWAIT encodes it: 0 is C1, 15 C0. */
static unsigned c_state(uint8_t encoded) { return (encoded + 1) & 15; }

static void power_entry(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": C%u, sub-state %u%s", c_state(event->a), event->b, event->c ? ", by hardware" : "");
}

static void power_exit(struct writer *out, const struct cofi_flow_event *event)
{
    static const char *const reasons[] = {"an interrupt", "a timer", "a store", "hardware"};
    const char *between = ", woken by ";
    write_format(out, ": from C%u, deepest C%u", c_state(event->a), c_state(event->b));
    for (unsigned i = 0; i < 4; i++)
        if (event->c >> i & 1) {
            write_format(out, "%s%s", between, reasons[i]);
            between = ", ";
        }
}

/* ---- event trace [PTREF 5.8] ---- */

static void control_flow_event(struct writer *out, const struct cofi_flow_event *event)
{
    static const char *const types[] = {[1] = "interrupt or exception",
                                        [2] = "return from one",
                                        [3] = "SMI",
                                        [4] = "RSM",
                                        [5] = "SIPI",
                                        [6] = "INIT",
                                        [7] = "VM entry",
                                        [8] = "VM exit",
                                        [9] = "VM exit by interrupt or exception",
                                        [10] = "shutdown",
                                        [12] = "user interrupt",
                                        [13] = "UIRET",
                                        [14] = "software interrupt",
                                        [15] = "system call"};
    const char *type = event->a < sizeof types / sizeof types[0] ? types[event->a] : NULL;
    if (type)
        write_format(out, ": %s", type);
    else
        write_format(out, ": type %u", event->a);
    if (event->b || cofi_cfe_has_vector(event->a))
        write_format(out, ", vector %u", event->b);
}

static void event_data(struct writer *out, const struct cofi_flow_event *event)
{
    static const char *const types[] = {"page fault at", "VM exit qualification", "VM exit reason"};
    if (event->a < 3)
        write_format(out, ": %s 0x%" PRIx64, types[event->a], event->value);
    else
        write_format(out, ": type %u, 0x%" PRIx64, event->a, event->value);
}

/* ---- blocks and triggers [PTREF 5.9, 5.10] ---- */

static void block(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": type %u, items of %u bytes", event->a, event->b ? 4 : 8);
}

static void block_item(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": %u is 0x%" PRIx64, event->a, event->value);
}

static void trigger(struct writer *out, const struct cofi_flow_event *event)
{
    write_format(out, ": 0x%x", event->a);
    if (event->b && event->ip == COFI_NO_IP)
        write_format(out, ", %" PRIu64 " instructions behind the last address or outcome", event->value);
    if (event->c)
        write_text(out, ", and others");
}

static details *const details_of[COFI_FLOW_EVENT_KINDS] = {
    [COFI_FLOW_OVERFLOW] = overflow,
    [COFI_FLOW_GAP] = gap,
    [COFI_FLOW_PAGING] = value,
    [COFI_FLOW_VMCS] = value,
    [COFI_FLOW_MODE] = mode,
    [COFI_FLOW_TSX] = transaction,
    [COFI_FLOW_PTWRITE] = data,
    [COFI_FLOW_MWAIT] = mwait,
    [COFI_FLOW_PWRE] = power_entry,
    [COFI_FLOW_PWRX] = power_exit,
    [COFI_FLOW_CFE] = control_flow_event,
    [COFI_FLOW_EVD] = event_data,
    [COFI_FLOW_BBP] = block,
    [COFI_FLOW_BIP] = block_item,
    [COFI_FLOW_TRIG] = trigger,
    [COFI_FLOW_CODE] = code,
};

void event_text(struct writer *out, const struct cofi_flow_event *event)
{
    write_text(out, cofi_flow_event_name(event->kind));
    if (event->ip != COFI_NO_IP)
        write_format(out, " at %016" PRIx64, event->ip);
    if (event->target != COFI_NO_IP)
        write_format(out, " to %016" PRIx64, event->target);
    if (details_of[event->kind])
        details_of[event->kind](out, event);
}

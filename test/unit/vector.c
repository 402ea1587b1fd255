/* SPDX-License-Identifier: MIT
 * See vector.h. */
#include "vector.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/packet.h>

static FILE *out, *packets; /* of the row at hand; null: nobody asked */
static char *packets_text;
static size_t packets_n;
static uint64_t last_ip;

void vector_begin(const char *name)
{
    const char *path = getenv("COFI_VECTORS");
    out = path ? fopen(path, "a") : NULL;
    if (!path)
        return;
    assert_non_null(out);
    assert_non_null(packets = open_memstream(&packets_text, &packets_n));
    last_ip = 0;
    fprintf(out, "\nscenario ");
    for (const char *c = name; *c; c++)
        putc(*c == '_' ? ' ' : *c, out);
    putc('\n', out);
}

void vector_end(void)
{
    if (!out)
        return;
    assert_int_equal(fclose(out), 0);
    fclose(packets);
    free(packets_text);
    out = NULL;
}

void vector_line(const char *format, ...)
{
    va_list args;
    if (!out)
        return;
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    putc('\n', out);
}

void vector_state(uint64_t ip, const struct cofi_context *context)
{
    static const struct cofi_context usual = {.vmcs = UINT64_MAX, .cpl = 3, .mode = 64, .iflag = true, .cr0_pg = true};
    struct cofi_event here = {.kind = COFI_EV_BOUNDARY, .vector = COFI_NO_VECTOR, .ip = ip, .context_set = true, .after = *context};
    char text[512];
    cofi_event_print(&here, &usual, text, sizeof text);
    vector_line("state%s", strchr(text, ' '));
}

void vector_event(const struct cofi_event *event, const struct cofi_context *before)
{
    char text[512];
    cofi_event_print(event, before, text, sizeof text);
    vector_line("    %s", text);
}

bool vector_wanted(void) { return out; }

void vector_config(const struct cofi_unit_config *config)
{
    if (config && config->buffer_bytes)
        vector_line("buffer %" PRIu32 " %" PRIu32 " %" PRIu32, config->buffer_bytes, config->drain_bytes, config->drain_cycles);
    for (int i = 1; config && i <= 8; i++) {
        char name[] = {'e', (char)('0' + i), 0};
        uint64_t bit;
        if (cofi_unit_erratum(COFI_RTIT, name, &bit) == 0 && config->errata & bit)
            vector_line("errata %s", name);
    }
}

/* With its whole address in place of the bytes that it has of it. */
void vector_packet(void *opaque, const struct cofi_explain *explain)
{
    const struct cofi_packet *packet = explain->packet;
    char text[128];
    uint64_t ip = 0;
    (void)opaque;
    if (!packet)
        return;
    bool has_ip = cofi_packet_traits((enum cofi_packet_kind)packet->kind) & COFI_TRAIT_HAS_IP && cofi_ip_expand(packet, last_ip, &ip);
    if (has_ip && packet->kind != COFI_RTIT_BUFFOVF)
        last_ip = ip;
    if (packet->kind == COFI_PT_PSB || packet->kind == COFI_PT_OVF)
        last_ip = 0;
    if (has_ip && !packet->ccp_size)
        snprintf(text, sizeof text, "%s %" PRIx64, cofi_packet_name((enum cofi_packet_kind)packet->kind), ip);
    else
        cofi_packet_print(packet, text, sizeof text);
    fprintf(packets, "    %s\n", text);
}

void vector_made(const uint8_t *bytes, size_t n)
{
    if (!out)
        return;
    fflush(packets);
    vector_line("packets\n%.*sbytes", (int)packets_n, packets_text);
    for (size_t at = 0; at < n; at += 64) {
        char text[129];
        for (size_t i = at; i < n && i < at + 64; i++)
            snprintf(text + 2 * (i - at), 3, "%02x", bytes[i]);
        vector_line("    %s", text);
    }
}

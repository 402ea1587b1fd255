/* SPDX-License-Identifier: MIT
 * libipt's instruction decoder, as a second opinion. */
#include "ipt.h"

#include <assert.h>
#include <intel-pt.h>
#include <stdlib.h>
#include <string.h>

const bool ipt_is_here = true;

struct memory {
    const struct ipt_code *pieces;
    unsigned n;
};

static int read_memory(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip, void *context)
{
    const struct memory *memory = context;
    (void)asid;
    for (unsigned i = 0; i < memory->n; i++) {
        const struct ipt_code *code = &memory->pieces[i];
        if (ip - code->base >= code->size)
            continue;
        size_t left = code->size - (size_t)(ip - code->base);
        if (size > left)
            size = left;
        memcpy(buffer, code->bytes + (ip - code->base), size);
        return (int)size;
    }
    return -pte_nomap;
}

static void add(uint64_t **ips, size_t *n, size_t *max, uint64_t ip)
{
    if (*n == *max) {
        *max = *max ? *max * 2 : 4096;
        *ips = realloc(*ips, *max * sizeof **ips);
        assert(*ips);
    }
    (*ips)[(*n)++] = ip;
}

uint64_t *ipt_insns_of(uint8_t *trace, size_t n, const struct ipt_code *pieces, unsigned pieces_n, size_t *count)
{
    struct memory memory = {pieces, pieces_n};
    struct pt_config config;
    pt_config_init(&config);
    config.begin = trace;
    config.end = trace + n;
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    pt_image_set_callback(pt_insn_get_image(decoder), read_memory, &memory);
    uint64_t *ips = NULL;
    size_t max = 0;
    *count = 0;
    for (int status = pt_insn_sync_forward(decoder); status >= 0; status = pt_insn_sync_forward(decoder)) {
        while (status >= 0) {
            while (status >= 0 && status & pts_event_pending) {
                struct pt_event event;
                status = pt_insn_event(decoder, &event, sizeof event);
            }
            if (status < 0)
                break;
            struct pt_insn insn;
            status = pt_insn_next(decoder, &insn, sizeof insn);
            if (insn.iclass != ptic_error && status >= 0)
                add(&ips, count, &max, insn.ip);
        }
        if (status == -pte_eos)
            break;
    }
    pt_insn_free_decoder(decoder);
    return ips;
}

uint64_t *ipt_insns(uint8_t *trace, size_t n, const uint8_t *code, size_t size, uint64_t base, size_t *count)
{
    return ipt_insns_of(trace, n, &(struct ipt_code){code, size, base}, 1, count);
}

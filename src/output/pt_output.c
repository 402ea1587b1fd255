/* SPDX-License-Identifier: MIT
 * A PT unit's bytes -> sink, single range or ToPA, as the output registers say [SDM Trace Output].
 */
#include "output/pt_output.h"

#include "base/bytes.h"

/* [SDM Single Range Output]: the three operational errors. */
static unsigned start_range(struct cofi__pt_output *out, uint64_t mask_ptrs)
{
    out->mask = (uint32_t)mask_ptrs | 0x7f;
    if (out->mask & (out->mask + 1))
        out->why = "the output mask is not of the form 2^k - 1 [SDM Single Range Output]";
    else if (out->base & out->mask)
        out->why = "the output base is not aligned to the mask [SDM Single Range Output]";
    else if (out->offset > out->mask)
        out->why = "the output offset is beyond the mask [SDM Single Range Output]";
    else
        return 0;
    return PT_OUTPUT_ERROR;
}

unsigned cofi__pt_output_start(struct cofi__pt_output *out, enum cofi__pt_output_mode mode,
                               uint64_t base, uint64_t mask_ptrs)
{
    out->mode = (uint8_t)mode;
    out->base = base;
    out->entry = (uint32_t)bits(mask_ptrs, 7, 25);
    out->offset = (uint32_t)(mask_ptrs >> 32);
    out->mask = (uint32_t)mask_ptrs | 0x7f;
    out->why = NULL;
    switch (mode) {
    case PT_OUTPUT_SINK: return 0;
    case PT_OUTPUT_RANGE: return start_range(out, mask_ptrs);
    case PT_OUTPUT_TOPA: return cofi__topa_load(out);
    }
    return 0;
}

/* A circle: the offset wraps at the mask, nothing stops or interrupts. */
static unsigned write_range(struct cofi__pt_output *out, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        uint64_t room = (uint64_t)out->mask + 1 - out->offset;
        size_t part = n < room ? n : (size_t)room;
        (void)out->memory.write(out->memory.opaque, out->base + out->offset, bytes, part);
        out->offset = (uint32_t)((out->offset + part) & out->mask);
        bytes += part;
        n -= part;
    }
    return 0;
}

unsigned cofi__pt_output_write(struct cofi__pt_output *out, const uint8_t *bytes, size_t n)
{
    switch ((enum cofi__pt_output_mode)out->mode) {
    case PT_OUTPUT_RANGE: return write_range(out, bytes, n);
    case PT_OUTPUT_TOPA: return cofi__topa_write(out, bytes, n);
    case PT_OUTPUT_SINK: break;
    }
    if (out->sink.write && out->sink.write(out->sink.opaque, bytes, n) < 0)
        return PT_OUTPUT_LOST | PT_OUTPUT_ERROR;
    return 0;
}

uint64_t cofi__pt_output_base(const struct cofi__pt_output *out) { return out->base; }

/* [SDM IA32_RTIT_OUTPUT_MASK_PTRS MSR] */
uint64_t cofi__pt_output_mask_ptrs(const struct cofi__pt_output *out)
{
    uint64_t low = out->mode == PT_OUTPUT_TOPA ? (uint64_t)out->entry << 7 | 0x7f : out->mask;
    return (uint64_t)out->offset << 32 | low;
}

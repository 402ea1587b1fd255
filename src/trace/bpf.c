/* SPDX-License-Identifier: MIT
 * BPF programs that the kernel had compiled, as perf keeps them in the header -> code of the kernel. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

/* Offsets in the kernel's struct bpf_prog_info [linux: uapi bpf.h]; what is a pointer there is an offset
 * into the data. */
enum { BPF_TAG = 8, BPF_JITED_BYTES = 16, BPF_JITED = 24, BPF_NAME = 64, BPF_NAME_BYTES = 16, BPF_FUNCTIONS = 104,
       BPF_LENGTHS = 108, BPF_ADDRESSES_AT = 112, BPF_LENGTHS_AT = 120, BPF_INFO_MIN = 128 };

struct program {
    const uint8_t *info, *data;
    uint64_t data_bytes;
};

/* n bytes of the data at the offset that a field of the info has; null: they are not all there. */
static const uint8_t *data_of(const struct program *p, size_t field, uint64_t n)
{
    uint64_t at = le64(p->info + field);
    return at <= p->data_bytes && n <= p->data_bytes - at ? p->data + at : NULL;
}

/* What KSYMBOL records call it. */
static void name_of(const struct program *p, char *out, size_t n)
{
    int at = snprintf(out, n, "bpf_prog_");
    for (int i = 0; i < 8; i++)
        at += snprintf(out + at, n - (size_t)at, "%02x", p->info[BPF_TAG + i]);
    if (p->info[BPF_NAME])
        snprintf(out + at, n - (size_t)at, "_%.*s", BPF_NAME_BYTES, (const char *)p->info + BPF_NAME);
}

static void add_functions(struct cofi_recording *recording, const struct program *p)
{
    uint32_t n = le32(p->info + BPF_FUNCTIONS), jited = le32(p->info + BPF_JITED_BYTES), at = 0;
    const uint8_t *addresses = data_of(p, BPF_ADDRESSES_AT, 8 * (uint64_t)n), *code = data_of(p, BPF_JITED, jited);
    const uint8_t *lengths = data_of(p, BPF_LENGTHS_AT, 4 * (uint64_t)n);
    char name[64];
    name_of(p, name, sizeof name);
    if (n != le32(p->info + BPF_LENGTHS) || !addresses || !lengths || !code)
        return;
    for (uint32_t i = 0; i < n && le32(lengths + 4 * i) <= jited - at; at += le32(lengths + 4 * i++)) {
        struct cofi__bpf *row = cofi__vector_push(&recording->bpf);
        if (row)
            *row = (struct cofi__bpf){le64(addresses + 8 * (uint64_t)i), le32(lengths + 4 * i), code + at,
                                      cofi__keep_string(&recording->keep, (const uint8_t *)name, strlen(name))};
    }
}

/* u32 n; each: u32 size of the info, u32 size of the data, u64 which arrays; the info; the data. */
void cofi__read_bpf(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n)
{
    enum { HEAD = 16 };
    uint64_t at = 4;
    for (uint32_t left = n >= 4 ? le32(bytes) : 0; left && n - at >= HEAD; left--) {
        uint64_t info = le32(bytes + at), data = le32(bytes + at + 4);
        at += HEAD;
        if (info + data > n - at)
            return;
        struct program p = {bytes + at, bytes + at + info, data};
        if (info >= BPF_INFO_MIN)
            add_functions(recording, &p);
        at += info + data;
    }
}

int cofi__map_bpf(struct cofi_recording *recording)
{
    const struct cofi__bpf *rows = recording->bpf.items;
    struct cofi_image *kernel = cofi__host_kernel(recording);
    for (size_t i = 0; i < recording->bpf.n; i++) {
        if (!rows[i].name ||
            cofi__image_borrow_bytes(kernel, 0, rows[i].addr, rows[i].bytes, rows[i].size, "[bpf]") == COFI_ERR_NOMEM)
            return COFI_ERR_NOMEM;
        COFI_TRY(cofi__image_name(kernel, 0, rows[i].addr, rows[i].size, rows[i].name));
    }
    return recording->bpf.failed ? COFI_ERR_NOMEM : 0;
}

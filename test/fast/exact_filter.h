/* SPDX-License-Identifier: MIT
 * A seccomp filter that lets exactly the runtime's own calls pass, with exactly their arguments, and some others whatever these have. */
#ifndef COFI_TEST_FAST_EXACT_FILTER_H
#define COFI_TEST_FAST_EXACT_FILTER_H

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "host/fast/own_calls.h"

struct exact_filter {
    struct sock_filter code[BPF_MAXINSNS];
    size_t n;
};

static inline void put(struct exact_filter *f, unsigned code, uint32_t k, size_t yes, size_t no)
{
    f->code[f->n++] = (struct sock_filter){(uint16_t)code, (uint8_t)yes, (uint8_t)no, k};
}

static inline void put_load(struct exact_filter *f, size_t offset)
{
    put(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Anything but this word leads to `end`. */
static inline void put_word(struct exact_filter *f, size_t offset, uint32_t word, size_t end)
{
    put_load(f, offset);
    put(f, BPF_JMP | BPF_JEQ | BPF_K, word, 0, end - f->n - 1);
}

static inline void put_call(struct exact_filter *f, const struct cofi__bpf_call *c)
{
    size_t known = 0;
    for (size_t i = 0; i < 6; i++)
        known += c->args[i].known;
    size_t end = f->n + 3 + 4 * known;
    put_word(f, offsetof(struct seccomp_data, nr), c->nr, end);
    for (size_t i = 0; i < 6; i++) {
        size_t at = offsetof(struct seccomp_data, args) + 8 * i;
        if (!c->args[i].known)
            continue;
        put_word(f, at, (uint32_t)c->args[i].value, end);
        put_word(f, at + 4, (uint32_t)(c->args[i].value >> 32), end);
    }
    put(f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* Whether what lets exactly `a` pass lets `b` pass, too. */
static inline bool lets_pass(const struct cofi__bpf_call *a, const struct cofi__bpf_call *b)
{
    bool all = a->nr == b->nr;
    for (size_t i = 0; i < 6; i++)
        all &= !a->args[i].known || (b->args[i].known && a->args[i].value == b->args[i].value);
    return all;
}

/* without: a call of the runtime's that does not pass; null: all of them do. Other calls than all of these come to `action`. */
static inline void exact_filter(struct exact_filter *f, const struct cofi__bpf_call *without, const uint32_t *others, size_t n, uint32_t action)
{
    size_t rows;
    const struct cofi__fast_own_call *own = cofi__fast_own_calls(&rows);
    f->n = 0;
    put_load(f, offsetof(struct seccomp_data, arch));
    put(f, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    put(f, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    for (size_t i = 0; i < n; i++)
        put_call(f, &(struct cofi__bpf_call){.nr = others[i]});
    for (size_t i = 0; i < rows; i++)
        if (!without || !lets_pass(&own[i].call, without))
            put_call(f, &own[i].call);
    put(f, BPF_RET | BPF_K, action, 0, 0);
}

#endif

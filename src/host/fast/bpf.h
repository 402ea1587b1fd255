/* SPDX-License-Identifier: MIT
 * A seccomp filter (classic BPF) and a system call of which not all is known -> what the filter may say to it. */
#ifndef COFI_HOST_FAST_BPF_H
#define COFI_HOST_FAST_BPF_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value of 64 bits of which all or nothing is known. */
struct cofi__bpf_value {
    bool known;
    uint64_t value;
};

/* A call of 64-bit code; from where is never known. */
struct cofi__bpf_call {
    uint32_t nr;
    struct cofi__bpf_value args[6];
};

/* The worst that may come of it: it is made (and logged perhaps); it fails with EPERM or ENOSYS;
 * something else (the caller is killed, gets a signal, waits for another process, …). */
enum cofi__bpf_answer { BPF_PASSES, BPF_FAILS, BPF_ELSE };

/* Whatever is not known may be anything. Time and memory are linear in n. What the kernel would not take
 * as a filter is BPF_ELSE. COFI_ERR_NOMEM. */
int cofi__bpf_ask(const struct sock_filter *code, size_t n, const struct cofi__bpf_call *call);

/* Whether it reads the instruction pointer, anywhere. */
bool cofi__bpf_reads_place(const struct sock_filter *code, size_t n);

#endif

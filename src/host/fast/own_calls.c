/* SPDX-License-Identifier: MIT
 * A thread's seccomp filters -> whether all calls that the runtime makes by itself pass them. */
#include "host/fast/own_calls.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "host/fast/hold.h"
#include "host/fast/prefix.h"

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

static const struct cofi__fast_own_call calls[] = {
#define IS(v) {true, (v)}
#define ANY {false, 0}
#define MUST false
#define MAY_FAIL true
#define CALL(name, place, may_fail, words, ...) {#name, OWN_##place, may_fail, words, {SYS_##name, {__VA_ARGS__}}},
#include "host/fast/own_calls.def"
};

const struct cofi__fast_own_call *cofi__fast_own_calls(size_t *n)
{
    *n = ARRAY_LEN(calls);
    return calls;
}

/* One more filter of n instructions, to be filled in; null: no memory. */
static struct sock_filter *add(struct cofi__fast_filters *f, size_t n)
{
    size_t before = f->n ? f->ends[f->n - 1] : 0;
    struct sock_filter *code = realloc(f->code, (before + n) * sizeof *code);
    f->code = code ? code : f->code;
    size_t *ends = realloc(f->ends, (f->n + 1) * sizeof *ends);
    f->ends = ends ? ends : f->ends;
    if (!code || !ends)
        return NULL;
    ends[f->n++] = before + n;
    return code + before;
}

static int cannot_read(int e, struct cofi_error *error)
{
    if (e == EACCES)
        return cofi__fail(error, COFI_ERR_PERMISSION, COFI_NOWHERE,
                          "it has a seccomp filter, which the runtime's system calls may not "
                          "pass; to look takes CAP_SYS_ADMIN, and no filter of one's own");
    return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "it has a seccomp filter that cannot be read: %s",
                      strerror(e));
}

static int read_all(pid_t tid, struct cofi__fast_filters *f, struct cofi_error *error)
{
    long n;
    while ((n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, f->n, NULL)) > 0) {
        struct sock_filter *code = add(f, (size_t)n);
        if (!code)
            return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
        if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, f->n - 1, code) != n)
            return cannot_read(errno, error);
    }
    return n < 0 && errno == ENOENT ? 0 : cannot_read(errno, error);
}

/* The filters of a thread that is stopped by ptrace. COFI_ERR_PERMISSION: that takes CAP_SYS_ADMIN, and
 * no filter of one's own; COFI_ERR_UNSUPPORTED: it is in seccomp's strict mode; COFI_ERR_SYSTEM: this
 * kernel does not tell; COFI_ERR_NOMEM. */
static int read_filters(pid_t tid, struct cofi__fast_filters *f, struct cofi_error *error)
{
    enum { STRICT = 1 };
    int mode = cofi__fast_seccomp_mode(tid);
    *f = (struct cofi__fast_filters){0};
    if (mode == STRICT)
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "it is in seccomp's strict mode");
    int status = mode ? read_all(tid, f, error) : 0;
    if (status < 0)
        cofi__fast_free_filters(f);
    return status;
}

bool cofi__fast_same_filters(const struct cofi__fast_filters *a, const struct cofi__fast_filters *b)
{
    return a->n == b->n && (!a->n || (!memcmp(a->ends, b->ends, a->n * sizeof *a->ends) &&
                                      !memcmp(a->code, b->code, a->ends[a->n - 1] * sizeof *a->code)));
}

void cofi__fast_free_filters(struct cofi__fast_filters *f)
{
    free(f->code);
    free(f->ends);
    *f = (struct cofi__fast_filters){0};
}

/* A filter, behind our prefix if it has that. */
struct filter {
    const struct sock_filter *code;
    size_t n;
    bool installed_under_us;
};

static struct filter filter_at(const struct cofi__fast_filters *f, size_t i)
{
    static const struct sock_filter prefix[] = COFI__FAST_PREFIX;
    size_t start = i ? f->ends[i - 1] : 0, n = f->ends[i] - start;
    const struct sock_filter *code = f->code + start;
    bool ours = n > ARRAY_LEN(prefix) && !memcmp(code, prefix, sizeof prefix);
    size_t skip = ours ? ARRAY_LEN(prefix) : 0;
    return (struct filter){code + skip, n - skip, ours};
}

/* 1: passes, 0: it does not. */
static int passes(const struct filter *filter, const struct cofi__fast_own_call *c)
{
    if (c->place & (OWN_RUNTIME | OWN_LENT | OWN_UNFILTERED) && filter->installed_under_us)
        return 1;
    int answer = cofi__bpf_ask(filter->code, filter->n, &c->call);
    return answer < 0 ? answer : answer == BPF_PASSES || (answer == BPF_FAILS && c->may_fail);
}

static int all_pass(const struct filter *filter, size_t number, unsigned places, struct cofi_error *error)
{
    for (const struct cofi__fast_own_call *c = calls; c < calls + ARRAY_LEN(calls); c++) {
        int status = c->place & places ? passes(filter, c) : 1;
        if (status < 0)
            return cofi__fail(error, status, COFI_NOWHERE, "out of memory");
        if (!status)
            return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                              "the runtime's %s would not pass its seccomp filter %zu", c->words, number);
    }
    return 0;
}

static int ignores_place(const struct filter *filter, size_t number, struct cofi_error *error)
{
    if (!cofi__bpf_reads_place(filter->code, filter->n))
        return 0;
    return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                      "its seccomp filter %zu looks at where calls are made, which translation "
                      "changes",
                      number);
}

int cofi__fast_calls_pass(const struct cofi__fast_filters *f, unsigned places, struct cofi_error *error)
{
    for (size_t i = 0; i < f->n; i++) {
        struct filter filter = filter_at(f, i);
        if (places & OWN_ELSEWHERE)
            COFI_TRY(ignores_place(&filter, i, error));
        COFI_TRY(all_pass(&filter, i, places, error));
    }
    return 0;
}

int cofi__fast_filters_let_too(pid_t tid, unsigned places, struct cofi__fast_filters *last, struct cofi_error *error)
{
    struct cofi__fast_filters now;
    COFI_TRY(read_filters(tid, &now, error));
    int status = cofi__fast_same_filters(&now, last) ? 0 : cofi__fast_calls_pass(&now, places, error);
    cofi__fast_free_filters(last);
    *last = now;
    return status;
}

int cofi__fast_filters_let(pid_t tid, unsigned places, struct cofi_error *error)
{
    struct cofi__fast_filters none = {0};
    int status = cofi__fast_filters_let_too(tid, places, &none, error);
    cofi__fast_free_filters(&none);
    return status;
}

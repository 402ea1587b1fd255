/* SPDX-License-Identifier: MIT
 * Seccomp filters, as programs have them -> whether the runtime's own calls pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/error.h"
#include "exact_filter.h"
#include "host/fast/prefix.h"

enum { X32 = 0x40000000, ALL_PLACES = OWN_PROGRAM | OWN_RUNTIME | OWN_LENT | OWN_RESTART | OWN_UNFILTERED };
#define FIELD(field) (uint32_t)offsetof(struct seccomp_data, field)
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define IF(test, k, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, (k), (yes), (no))
#define IF_X(test, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_X, 0, (yes), (no))
#define GO(n) BPF_STMT(BPF_JMP | BPF_JA, (n))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define ALU(op, k) BPF_STMT(BPF_ALU | (op) | BPF_K, (k))
#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define KNOWN(v) {true, (v)}
#define ASK(code, ...) cofi__bpf_ask((code), ARRAY_LEN(code), &(struct cofi__bpf_call){__VA_ARGS__})

static void a_filter_passes_where_it_allows_or_logs(void **state)
{
    (void)state;
    static const struct { uint32_t action; int answer; } rows[] = {
        {ALLOW, BPF_PASSES}, {SECCOMP_RET_LOG, BPF_PASSES}, {ALLOW | 77, BPF_PASSES},
        {SECCOMP_RET_ERRNO | EPERM, BPF_FAILS}, {SECCOMP_RET_ERRNO | ENOSYS, BPF_FAILS},
        {SECCOMP_RET_ERRNO, BPF_ELSE}, {SECCOMP_RET_ERRNO | EACCES, BPF_ELSE}, {SECCOMP_RET_TRAP, BPF_ELSE}, {SECCOMP_RET_TRACE, BPF_ELSE},
        {SECCOMP_RET_USER_NOTIF, BPF_ELSE}, {SECCOMP_RET_KILL_THREAD, BPF_ELSE}, {KILL, BPF_ELSE}, {0x7fe00000, BPF_ELSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct sock_filter all[] = {RETURN(rows[i].action)};
        assert_int_equal(ASK(all, 1), rows[i].answer);
    }
}

/* What one allowed call in the middle of others makes of the rest. */
static void number_and_architecture_are_known(void **state)
{
    (void)state;
    const struct sock_filter code[] = {
        LOAD(FIELD(arch)), IF(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0), RETURN(KILL),
        LOAD(FIELD(nr)), IF(BPF_JGE, X32, 0, 1), RETURN(KILL),
        IF(BPF_JEQ, SYS_read, 2, 0), IF(BPF_JEQ, SYS_futex, 1, 0), RETURN(SECCOMP_RET_ERRNO | EPERM), RETURN(ALLOW),
    };
    assert_int_equal(ASK(code, SYS_read), BPF_PASSES);
    assert_int_equal(ASK(code, SYS_futex), BPF_PASSES);
    assert_int_equal(ASK(code, SYS_mmap), BPF_FAILS);
    assert_int_equal(ASK(code, SYS_read | X32), BPF_ELSE);
    const struct sock_filter other[] = {LOAD(FIELD(arch)), IF(BPF_JEQ, AUDIT_ARCH_I386, 0, 1), RETURN(ALLOW), RETURN(KILL)};
    assert_int_equal(ASK(other, SYS_read), BPF_ELSE);
}

/* As libseccomp compares arguments: the high word, then the low one. */
static void arguments_are_compared_by_their_halves(void **state)
{
    (void)state;
    const struct sock_filter at_least[] = { /* the second argument is 0x1_0000_0005 at least */
        LOAD(FIELD(args[1]) + 4), IF(BPF_JGT, 1, 3, 0), IF(BPF_JEQ, 1, 0, 3), LOAD(FIELD(args[1])), IF(BPF_JGE, 5, 0, 1), RETURN(ALLOW),
        RETURN(KILL),
    };
    assert_int_equal(ASK(at_least, 1, {{0}, KNOWN(0x100000005)}), BPF_PASSES);
    assert_int_equal(ASK(at_least, 1, {{0}, KNOWN(0x200000000)}), BPF_PASSES);
    assert_int_equal(ASK(at_least, 1, {{0}, KNOWN(0x100000004)}), BPF_ELSE);
    assert_int_equal(ASK(at_least, 1, {{0}, KNOWN(0xffffffff)}), BPF_ELSE);
    assert_int_equal(ASK(at_least, 1, {{0}}), BPF_ELSE);
    assert_int_equal(ASK(at_least, 1, {KNOWN(0x100000005)}), BPF_ELSE);
    const struct sock_filter not_four[] = {LOAD(FIELD(args[0])), IF(BPF_JEQ, 4, 0, 1), RETURN(KILL), RETURN(ALLOW)};
    const struct sock_filter only_four[] = {LOAD(FIELD(args[0])), IF(BPF_JEQ, 4, 1, 0), RETURN(KILL), RETURN(ALLOW)};
    assert_int_equal(ASK(not_four, 1), BPF_ELSE);
    assert_int_equal(ASK(only_four, 1), BPF_ELSE);
    const struct sock_filter either[] = {LOAD(FIELD(args[0])), IF(BPF_JEQ, 4, 1, 0), RETURN(ALLOW), RETURN(SECCOMP_RET_LOG)};
    assert_int_equal(ASK(either, 1), BPF_PASSES); /* both ways lead to where it passes */
}

/* The same accumulator on both ways is still known; another one is not. */
static void where_ways_meet_what_they_have_in_common_is_known(void **state)
{
    (void)state;
    const struct sock_filter same[] = {
        LOAD(FIELD(args[0])), IF(BPF_JSET, 1, 0, 2), LOAD(FIELD(nr)), GO(1), LOAD(FIELD(nr)), IF(BPF_JEQ, 7, 0, 1), RETURN(ALLOW), RETURN(KILL),
    };
    assert_int_equal(ASK(same, 7), BPF_PASSES);
    assert_int_equal(ASK(same, 8), BPF_ELSE);
    const struct sock_filter other[] = {
        LOAD(FIELD(args[0])), IF(BPF_JSET, 1, 0, 2), LOAD(FIELD(nr)), GO(1), LOAD(FIELD(arch)), IF(BPF_JEQ, 7, 0, 1), RETURN(ALLOW), RETURN(KILL),
    };
    assert_int_equal(ASK(other, 7), BPF_ELSE);
}

/* Each operation, by what it makes of the call's number. */
static void each_operation_computes_as_the_kernel_does(void **state)
{
    (void)state;
    static const struct { uint16_t op; uint32_t nr, k, result; } rows[] = {
        {BPF_ADD, 7, 5, 12}, {BPF_SUB, 7, 9, 0xfffffffe}, {BPF_MUL, 7, 6, 42}, {BPF_DIV, 43, 6, 7}, {BPF_AND, 0xf7, 0x3c, 0x34},
        {BPF_OR, 0xf0, 0x0c, 0xfc}, {BPF_XOR, 0xff, 0x0f, 0xf0}, {BPF_LSH, 3, 4, 0x30}, {BPF_RSH, 0x30, 4, 3}, {BPF_NEG, 1, 0, 0xffffffff},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct sock_filter with_k[] = {
            LOAD(FIELD(nr)), BPF_STMT((uint16_t)(BPF_ALU | BPF_K | rows[i].op), rows[i].k), IF(BPF_JEQ, rows[i].result, 0, 1), RETURN(ALLOW), RETURN(KILL)};
        const struct sock_filter with_x[] = {
            BPF_STMT(BPF_LDX | BPF_IMM, rows[i].k), LOAD(FIELD(nr)), BPF_STMT((uint16_t)(BPF_ALU | BPF_X | rows[i].op), 0),
            IF(BPF_JEQ, rows[i].result, 0, 1), RETURN(ALLOW), RETURN(KILL)};
        assert_int_equal(ASK(with_k, rows[i].nr), BPF_PASSES);
        assert_int_equal(ASK(with_x, rows[i].nr), BPF_PASSES);
        assert_int_equal(ASK(with_k, rows[i].nr + 16), BPF_ELSE);
    }
}

static void memory_and_registers_keep_what_is_known(void **state)
{
    (void)state;
    const struct sock_filter code[] = {
        LOAD(FIELD(nr)), BPF_STMT(BPF_ST, 3), BPF_STMT(BPF_LD | BPF_IMM, 9), BPF_STMT(BPF_LDX | BPF_MEM, 3), IF_X(BPF_JEQ, 0, 4),
        BPF_STMT(BPF_STX, 15), BPF_STMT(BPF_LD | BPF_MEM, 15), BPF_STMT(BPF_MISC | BPF_TAX, 0), GO(1), RETURN(KILL),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), IF(BPF_JEQ, 64, 0, 3), BPF_STMT(BPF_MISC | BPF_TXA, 0), ALU(BPF_ADD, ALLOW - 9), BPF_STMT(BPF_RET | BPF_A, 0),
        RETURN(KILL),
    };
    assert_int_equal(ASK(code, 9), BPF_PASSES);
    assert_int_equal(ASK(code, 10), BPF_ELSE);
    const struct sock_filter unknown[] = {LOAD(FIELD(args[2])), ALU(BPF_OR, ALLOW), BPF_STMT(BPF_RET | BPF_A, 0)};
    assert_int_equal(ASK(unknown, 1, {{0}, {0}, KNOWN(5)}), BPF_PASSES);
    assert_int_equal(ASK(unknown, 1), BPF_ELSE);
    const struct sock_filter by_nothing[] = {LOAD(FIELD(nr)), BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), RETURN(ALLOW)};
    assert_int_equal(ASK(by_nothing, 1), BPF_ELSE);
    const struct sock_filter no_end[] = {LOAD(FIELD(nr)), IF(BPF_JEQ, 1, 1, 0), RETURN(ALLOW)};
    assert_int_equal(ASK(no_end, 2), BPF_PASSES);
    assert_int_equal(ASK(no_end, 1), BPF_ELSE);
}

/* From where the call is made is not known, and that it is asked for is. */
static void from_where_a_call_is_made_is_not_known(void **state)
{
    (void)state;
    const struct sock_filter code[] = {LOAD(FIELD(instruction_pointer)), IF(BPF_JGT, 0x1000, 0, 1), RETURN(ALLOW), RETURN(KILL)};
    const struct sock_filter prefixed[] = {LOAD(FIELD(nr)), RETURN(ALLOW)};
    assert_int_equal(ASK(code, 1), BPF_ELSE);
    assert_true(cofi__bpf_reads_place(code, ARRAY_LEN(code)));
    assert_false(cofi__bpf_reads_place(prefixed, ARRAY_LEN(prefixed)));
}

/* 2000 branches, each on something that is not known: 2^2000 ways, or one pass. */
static void a_ladder_of_jumps_takes_one_pass(void **state)
{
    (void)state;
    static struct sock_filter code[BPF_MAXINSNS];
    size_t n = 0;
    clock_t start = clock();
    for (uint32_t i = 0; n + 4 < BPF_MAXINSNS; i++) {
        code[n++] = (struct sock_filter)LOAD(FIELD(args[0]));
        code[n++] = (struct sock_filter)IF(BPF_JGT, i, 1, 0);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_ST, i % BPF_MEMWORDS);
    }
    code[n++] = (struct sock_filter)RETURN(ALLOW);
    assert_int_equal(cofi__bpf_ask(code, n, &(struct cofi__bpf_call){.nr = 1}), BPF_PASSES);
    code[n - 1] = (struct sock_filter)RETURN(KILL);
    assert_int_equal(cofi__bpf_ask(code, n, &(struct cofi__bpf_call){.nr = 1}), BPF_ELSE);
    assert_true(clock() - start < CLOCKS_PER_SEC);
}

/* ---- the runtime's calls ---- */

/* Filters one after the other; a code of no instructions ends them. */
static struct cofi__fast_filters chain(const struct sock_filter *const *codes, const size_t *n)
{
    struct cofi__fast_filters f = {calloc(2 * BPF_MAXINSNS, sizeof *f.code), calloc(8, sizeof *f.ends), 0};
    size_t end = 0;
    assert_true(f.code && f.ends);
    for (; n[f.n]; f.n++) {
        memcpy(f.code + end, codes[f.n], n[f.n] * sizeof *f.code);
        f.ends[f.n] = end += n[f.n];
    }
    return f;
}

/* COFI_OK, or an error with *text. */
static int pass_both(const struct sock_filter *first, size_t n, const struct sock_filter *second, size_t m, unsigned places, char *text)
{
    struct cofi_error error = {0};
    struct cofi__fast_filters f = chain((const struct sock_filter *const[]){first, second}, (const size_t[]){n, m, 0});
    int status = cofi__fast_calls_pass(&f, places, &error);
    strcpy(text, error.text);
    cofi__fast_free_filters(&f);
    return status;
}
#define PASS(code, places, text) pass_both((code), ARRAY_LEN(code), NULL, 0, (places), (text))

static struct exact_filter exact;

static void a_filter_of_exactly_the_calls_lets_them_pass(void **state)
{
    (void)state;
    char text[240];
    exact_filter(&exact, NULL, NULL, 0, KILL);
    assert_int_equal(pass_both(exact.code, exact.n, NULL, 0, ALL_PLACES, text), 0);
    assert_int_equal(pass_both(exact.code, exact.n, exact.code, exact.n, ALL_PLACES, text), 0);
}

/* Without a call, that one is named, in the first filter or in the second. */
static void a_call_that_a_filter_lacks_is_named(void **state)
{
    (void)state;
    size_t n;
    const struct cofi__fast_own_call *own = cofi__fast_own_calls(&n);
    static struct exact_filter whole;
    exact_filter(&whole, NULL, NULL, 0, KILL);
    for (size_t i = 0; i < n; i++) {
        char text[240], expected[240];
        const struct cofi__fast_own_call *first = own;
        while (!lets_pass(&first->call, &own[i].call))
            first++;
        exact_filter(&exact, &own[i].call, NULL, 0, KILL);
        snprintf(expected, sizeof expected, "the runtime's %s would not pass its seccomp filter 0", first->words);
        assert_int_equal(pass_both(exact.code, exact.n, whole.code, whole.n, ALL_PLACES, text), COFI_ERR_UNSUPPORTED);
        assert_string_equal(text, expected);
        assert_int_equal(pass_both(whole.code, whole.n, exact.code, exact.n, own[i].place, text), COFI_ERR_UNSUPPORTED);
        assert_non_null(strstr(text, "filter 1"));
        exact_filter(&exact, &own[i].call, NULL, 0, SECCOMP_RET_ERRNO | EPERM);
        assert_int_equal(pass_both(exact.code, exact.n, NULL, 0, own[i].place, text), own[i].may_fail ? 0 : COFI_ERR_UNSUPPORTED);
    }
}

static void only_who_is_lent_the_memory_needs_sockets(void **state)
{
    (void)state;
    char text[240];
    const struct cofi__bpf_call pair = {SYS_socketpair, {{true, AF_UNIX}, {true, SOCK_STREAM | SOCK_CLOEXEC}, {true, 0}}};
    exact_filter(&exact, &pair, NULL, 0, KILL);
    assert_int_equal(pass_both(exact.code, exact.n, NULL, 0, OWN_PROGRAM | OWN_RUNTIME, text), 0);
    assert_int_equal(pass_both(exact.code, exact.n, NULL, 0, OWN_LENT, text), COFI_ERR_UNSUPPORTED);
}

/* The words name a call and its arguments, so no two calls have the same. */
static void no_two_calls_have_the_same_words(void **state)
{
    (void)state;
    size_t n;
    const struct cofi__fast_own_call *own = cofi__fast_own_calls(&n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(strcmp(own[i].words, own[j].words) || own[i].place != own[j].place);
}

/* systemd's MemoryDenyWriteExecute: no mapping to write and execute, no execute permission later. */
static void what_denies_write_and_execute_is_found(void **state)
{
    (void)state;
    char text[240];
    const struct sock_filter code[] = {
        LOAD(FIELD(arch)), IF(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0), RETURN(ALLOW),
        LOAD(FIELD(nr)), IF(BPF_JEQ, SYS_mmap, 0, 3),
        LOAD(FIELD(args[2])), ALU(BPF_AND, PROT_EXEC | PROT_WRITE), IF(BPF_JEQ, PROT_EXEC | PROT_WRITE, 5, 6),
        IF(BPF_JEQ, SYS_mprotect, 1, 0), IF(BPF_JEQ, SYS_pkey_mprotect, 0, 4),
        LOAD(FIELD(args[2])), ALU(BPF_AND, PROT_EXEC), IF(BPF_JEQ, PROT_EXEC, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EPERM), RETURN(ALLOW),
    };
    assert_int_equal(PASS(code, OWN_PROGRAM | OWN_RUNTIME, text), COFI_ERR_UNSUPPORTED);
    assert_string_equal(text, "the runtime's mmap to write and execute would not pass its seccomp filter 0");
    const struct sock_filter later_only[] = {
        LOAD(FIELD(nr)), IF(BPF_JEQ, SYS_mprotect, 0, 3), LOAD(FIELD(args[2])), IF(BPF_JSET, PROT_EXEC, 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(ALLOW),
    };
    assert_int_equal(PASS(later_only, OWN_PROGRAM | OWN_RUNTIME, text), COFI_ERR_UNSUPPORTED);
    assert_string_equal(text, "the runtime's mprotect to read and execute would not pass its seccomp filter 0");
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorted numbers as a tree of comparisons, as libseccomp makes it at its second level of optimization: each leaf allows its own, or not. */
static void put_tree(struct exact_filter *f, const uint32_t *nr, size_t n, uint32_t action)
{
    if (n == 1) {
        put(f, BPF_JMP | BPF_JEQ | BPF_K, nr[0], 0, 1);
        put(f, BPF_RET | BPF_K, ALLOW, 0, 0);
        put(f, BPF_RET | BPF_K, action, 0, 0);
        return;
    }
    size_t low = n / 2, jump = f->n + 1;
    put(f, BPF_JMP | BPF_JGE | BPF_K, nr[low], 0, 1);
    put(f, BPF_JMP | BPF_JA, 0, 0, 0);
    put_tree(f, nr, low, action);
    f->code[jump].k = (uint32_t)(f->n - jump - 1);
    put_tree(f, nr + low, n - low, action);
}

/* All that the runtime calls and a hundred others, sorted. Returns how many. */
static size_t numbers(uint32_t *nr, uint32_t without)
{
    size_t rows, n = 0;
    const struct cofi__fast_own_call *own = cofi__fast_own_calls(&rows);
    for (size_t i = 0; i < rows; i++)
        nr[n++] = own[i].call.nr;
    for (uint32_t other = 30; other < 130; other++)
        nr[n++] = other;
    qsort(nr, n, sizeof *nr, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (nr[i] != without && (!kept || nr[i] != nr[kept - 1]))
            nr[kept++] = nr[i];
    return kept;
}

/* An allow list as container engines have it. */
static void an_allow_list_may_be_a_tree(void **state)
{
    (void)state;
    uint32_t nr[256];
    char text[240];
    for (unsigned without = 0; without < 2; without++) {
        size_t n = numbers(nr, without ? SYS_sigaltstack : UINT32_MAX);
        exact.n = 0;
        put_load(&exact, FIELD(arch));
        put(&exact, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
        put(&exact, BPF_RET | BPF_K, KILL, 0, 0);
        put_load(&exact, FIELD(nr));
        put_tree(&exact, nr, n, SECCOMP_RET_ERRNO | EPERM);
        int status = pass_both(exact.code, exact.n, NULL, 0, ALL_PLACES, text);
        assert_int_equal(status, without ? COFI_ERR_UNSUPPORTED : 0);
        assert_true(!without || strstr(text, "the runtime's sigaltstack "));
    }
}

/* A filter that was installed in the runtime lets its calls pass, but not those from elsewhere. */
static void a_filter_installed_in_the_runtime_lets_it_pass(void **state)
{
    (void)state;
    char text[240];
    struct sock_filter code[] = {LOAD(0), LOAD(0), LOAD(0), LOAD(0), LOAD(0), LOAD(0), LOAD(0), RETURN(KILL)};
    const struct sock_filter prefix[] = COFI__FAST_PREFIX;
    struct cofi__fast_filters f;
    assert_int_equal(PASS(code, OWN_RUNTIME, text), COFI_ERR_UNSUPPORTED);
    memcpy(code, prefix, sizeof prefix);
    assert_int_equal(PASS(code, OWN_RUNTIME | OWN_LENT, text), 0);
    assert_int_equal(PASS(code, OWN_PROGRAM, text), COFI_ERR_UNSUPPORTED);
    assert_int_equal(PASS(code, OWN_RESTART, text), COFI_ERR_UNSUPPORTED);
    f = chain((const struct sock_filter *const[]){code}, (const size_t[]){ARRAY_LEN(code), 0});
    assert_int_equal(cofi__fast_calls_pass(&f, OWN_ELSEWHERE, NULL), 0);
    f.code[3].k++; /* another runtime's */
    assert_int_equal(cofi__fast_calls_pass(&f, OWN_ELSEWHERE, NULL), COFI_ERR_UNSUPPORTED);
    assert_int_equal(cofi__fast_calls_pass(&f, OWN_RUNTIME, NULL), COFI_ERR_UNSUPPORTED);
    cofi__fast_free_filters(&f);
}

static void filters_are_the_same_if_all_of_them_are(void **state)
{
    (void)state;
    const struct sock_filter all[] = {RETURN(ALLOW), RETURN(ALLOW)}, other[] = {RETURN(KILL)};
    const struct sock_filter *const codes[] = {all, all}, *const others[] = {all, other};
    struct cofi__fast_filters none = {0}, one = chain(codes, (const size_t[]){2, 0}), two = chain(codes, (const size_t[]){1, 1, 0}),
                              again = chain(codes, (const size_t[]){1, 1, 0}), three = chain(others, (const size_t[]){1, 1, 0});
    assert_true(cofi__fast_same_filters(&none, &none));
    assert_true(cofi__fast_same_filters(&two, &again));
    assert_false(cofi__fast_same_filters(&none, &one));
    assert_false(cofi__fast_same_filters(&one, &two));
    assert_false(cofi__fast_same_filters(&two, &three));
    struct cofi__fast_filters *const all_of[] = {&one, &two, &again, &three};
    for (size_t i = 0; i < ARRAY_LEN(all_of); i++)
        cofi__fast_free_filters(all_of[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_passes_where_it_allows_or_logs),
        cmocka_unit_test(number_and_architecture_are_known),
        cmocka_unit_test(arguments_are_compared_by_their_halves),
        cmocka_unit_test(where_ways_meet_what_they_have_in_common_is_known),
        cmocka_unit_test(each_operation_computes_as_the_kernel_does),
        cmocka_unit_test(memory_and_registers_keep_what_is_known),
        cmocka_unit_test(from_where_a_call_is_made_is_not_known),
        cmocka_unit_test(a_ladder_of_jumps_takes_one_pass),
        cmocka_unit_test(a_filter_of_exactly_the_calls_lets_them_pass),
        cmocka_unit_test(a_call_that_a_filter_lacks_is_named),
        cmocka_unit_test(only_who_is_lent_the_memory_needs_sockets),
        cmocka_unit_test(no_two_calls_have_the_same_words),
        cmocka_unit_test(what_denies_write_and_execute_is_found),
        cmocka_unit_test(an_allow_list_may_be_a_tree),
        cmocka_unit_test(a_filter_installed_in_the_runtime_lets_it_pass),
        cmocka_unit_test(filters_are_the_same_if_all_of_them_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

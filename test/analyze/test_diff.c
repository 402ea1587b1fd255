/* SPDX-License-Identifier: MIT
 * Two runs compared: where they part, what is of one alone, where they are together again; by hand, and with programs made at random, of which one
 * decision is another one in the second run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/diff.h>
#include <cofi/insn.h>

/* ---- two runs that are known, and a diff of them ---- */

/* What ran: blocks of instructions of one byte, interrupts (n 0, from `end` to `ip`), and gaps (ip 0, too). */
struct run {
    struct cofi_flow_block *blocks;
    size_t n, room, fed;
    uint64_t *ips; /* of all instructions */
    size_t insns;
};

enum { PARTINGS = 4096 };
struct parting {
    uint64_t at[2], alone[2];
    bool joined;
};

struct fixture {
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_diff *diff;
    struct run runs[2];
    struct parting partings[PARTINGS];
    size_t n, piece;
    bool in_parting;
};

static void add(struct run *run, uint64_t ip, uint32_t n, uint8_t cls)
{
    if (run->n == run->room) {
        run->room = run->room ? 2 * run->room : 64;
        run->blocks = realloc(run->blocks, run->room * sizeof *run->blocks);
    }
    run->blocks[run->n++] = (struct cofi_flow_block){.ip = ip, .end = ip + n, .n = n, .cls = cls, .mode = 64};
}

static void interrupt(struct run *run, uint64_t from, uint64_t to)
{
    add(run, to, 0, COFI_CLASS_OTHER);
    run->blocks[run->n - 1].end = from;
}

static void list_instructions(struct run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n; i++)
        run->insns += run->blocks[i].n;
    run->ips = malloc((run->insns + 1) * sizeof *run->ips);
    for (size_t i = 0; i < run->n; i++)
        for (uint32_t k = 0; k < run->blocks[i].n; k++)
            run->ips[n++] = run->blocks[i].ip + k;
}

static int more(void *opaque, unsigned of)
{
    struct fixture *f = opaque;
    struct run *run = &f->runs[of];
    for (size_t i = 0; i < f->piece && run->fed < run->n; i++) {
        const struct cofi_flow_block *block = &run->blocks[run->fed++];
        struct cofi_flow_event event = {.kind = block->ip ? COFI_FLOW_ASYNC : COFI_FLOW_GAP, .ip = block->end, .target = block->ip};
        if (block->n)
            assert_int_equal(cofi_diff_blocks(f->diff, of, f->view, &block, 1), 0);
        else
            assert_int_equal(cofi_diff_event(f->diff, of, f->view, &event), 0);
    }
    return run->fed < run->n;
}

static int parted(void *opaque)
{
    struct fixture *f = opaque;
    assert_false(f->in_parting);
    assert_true(f->n < PARTINGS);
    f->in_parting = true;
    f->partings[f->n] = (struct parting){.at = {cofi_diff_insns(f->diff, 0), cofi_diff_insns(f->diff, 1)}};
    return 0;
}

/* All that is said to be of one run is what that did there. */
static int alone(void *opaque, unsigned of, const struct cofi_diff_step *steps, size_t n)
{
    struct fixture *f = opaque;
    struct parting *parting = &f->partings[f->n];
    const struct run *run = &f->runs[of];
    assert_true(f->in_parting);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < steps[i].insns; k++) {
            size_t at = parting->at[of] + parting->alone[of]++;
            assert_true(at < run->insns);
            assert_int_equal(run->ips[at], steps[i].ip + k);
        }
    return 0;
}

static int joined(void *opaque, const struct cofi_diff_step *const at[2])
{
    struct fixture *f = opaque;
    assert_true(f->in_parting);
    f->in_parting = false;
    f->partings[f->n++].joined = at[0];
    if (at[0])
        assert_int_equal(at[0]->place, at[1]->place);
    return 0;
}

static const struct cofi_diff_visitor visitor = {more, parted, alone, joined, NULL};

/* Between the partings both did the same, instruction by instruction. */
static void check_between(const struct fixture *f)
{
    uint64_t at[2] = {0, 0};
    for (size_t i = 0; i <= f->n; i++) {
        const struct parting *next = i < f->n ? &f->partings[i] : NULL;
        uint64_t to[2] = {next ? next->at[0] : f->runs[0].insns, next ? next->at[1] : f->runs[1].insns};
        assert_int_equal(to[0] - at[0], to[1] - at[1]);
        assert_memory_equal(f->runs[0].ips + at[0], f->runs[1].ips + at[1], (to[0] - at[0]) * sizeof *f->runs[0].ips);
        for (unsigned run = 0; run < 2 && next; run++)
            at[run] = to[run] + next->alone[run];
    }
}

static void compare(struct fixture *f)
{
    const struct cofi_diff_options options = {.size = sizeof options};
    struct cofi_diff_visitor with = visitor;
    with.opaque = f;
    for (unsigned i = 0; i < 2; i++)
        list_instructions(&f->runs[i]);
    assert_int_equal(cofi_diff_open(&f->diff, &options), 0);
    assert_int_equal(cofi_diff_run(f->diff, &with), 0);
    assert_false(f->in_parting);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(cofi_diff_insns(f->diff, i), f->runs[i].insns);
    cofi_diff_close(f->diff);
    check_between(f);
}

static uint64_t all_alone(const struct fixture *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += f->partings[i].alone[0] + f->partings[i].alone[1];
    return n;
}

static void forget(struct fixture *f)
{
    for (unsigned i = 0; i < 2; i++) {
        free(f->runs[i].blocks);
        free(f->runs[i].ips);
        f->runs[i] = (struct run){0};
    }
    f->n = 0;
    f->piece = 100;
}

static int setup(void **state)
{
    static struct fixture f;
    static const uint8_t code[0x8000];
    assert_int_equal(cofi_image_open(&f.image), 0);
    assert_int_equal(cofi_image_map_bytes(f.image, 0, 0x1000, code, sizeof code, "code"), 0);
    assert_int_equal(cofi_view_open(&f.view, f.image), 0);
    forget(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    forget(f);
    cofi_view_close(f->view);
    cofi_image_close(f->image);
    return 0;
}

/* ---- by hand ---- */

enum { MAIN = 0x1000, F = 0x2000, G = 0x3000 };

static void loop(struct run *run, unsigned times, uint64_t body)
{
    for (unsigned i = 0; i < times; i++) {
        add(run, MAIN + 16, 5, COFI_CLASS_CALL);
        add(run, body, 7, COFI_CLASS_RET);
        add(run, MAIN + 21, 2, COFI_CLASS_JCC);
    }
}

static void begin(struct run *run) { add(run, MAIN, 16, COFI_CLASS_OTHER); }
static void end(struct run *run) { add(run, MAIN + 23, 9, COFI_CLASS_FAR_CALL); }

static void the_same_does_not_part(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 2; i++) {
        begin(&f->runs[i]);
        loop(&f->runs[i], 1000, F);
        end(&f->runs[i]);
    }
    compare(f);
    assert_int_equal(f->n, 0);
}

static void more_iterations_are_one_parting(void **state)
{
    struct fixture *f = *state;
    const unsigned times[][2] = {{3, 4}, {4, 3}, {1, 200}, {100000, 7}, {5, 300000}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        forget(f);
        for (unsigned run = 0; run < 2; run++) {
            begin(&f->runs[run]);
            loop(&f->runs[run], times[i][run], F);
            end(&f->runs[run]);
        }
        compare(f);
        assert_int_equal(f->n, 1);
        assert_int_equal(f->partings[0].at[0], 16 + 14 * (times[i][0] < times[i][1] ? times[i][0] : times[i][1]));
        assert_true(f->partings[0].joined);
        assert_int_equal(f->partings[0].alone[times[i][0] < times[i][1]], 14u * (unsigned)abs((int)times[i][0] - (int)times[i][1]));
    }
}

/* As an interpreter whose program has an operation more: the loop goes on with another function each time. */
static void one_operation_more_does_not_shift_the_rest(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        for (unsigned i = 0; i < 200; i++)
            loop(&f->runs[run], 1, F + 256 * (i * i % 17));
        if (run)
            loop(&f->runs[run], 1, G);
        for (unsigned i = 0; i < 200; i++)
            loop(&f->runs[run], 1, F + 256 * (i * i % 13));
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 1);
    assert_int_equal(f->partings[0].alone[0], 0);
    assert_int_equal(f->partings[0].alone[1], 14);
}

/* A call that takes long, of which the other run does nothing: more than is held. */
static void a_long_call_is_passed_over(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        loop(&f->runs[run], 1, F);
        add(&f->runs[run], MAIN + 16, 5, COFI_CLASS_CALL);
        for (unsigned i = 0; run && i < 2 * COFI_DIFF_STEPS; i++)
            add(&f->runs[run], G, 3, COFI_CLASS_JCC);
        add(&f->runs[run], run ? G + 3 : F, 1, COFI_CLASS_RET);
        add(&f->runs[run], MAIN + 21, 2, COFI_CLASS_JCC);
        loop(&f->runs[run], 5, F);
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 1);
    assert_true(f->partings[0].joined);
    assert_int_equal(f->partings[0].alone[0], 1);
    assert_int_equal(f->partings[0].alone[1], 6 * COFI_DIFF_STEPS + 1);
}

/* The function that they part in: one run returns at once, the other goes round so many times before. */
static void call_and_go_round(struct run *run, unsigned times)
{
    add(run, MAIN + 16, 5, COFI_CLASS_CALL);
    add(run, F, 4, COFI_CLASS_JCC);
    for (unsigned i = 0; i < times; i++)
        add(run, F + 4, 3, COFI_CLASS_JCC);
    add(run, F + 7, 1, COFI_CLASS_RET);
    add(run, MAIN + 21, 2, COFI_CLASS_JCC);
}

/* However much it does until the other one returns, too. */
static void who_has_returned_waits(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        call_and_go_round(&f->runs[run], run ? 3 * COFI_DIFF_STEPS : 0);
        for (unsigned i = 0; i < 100000; i++)
            loop(&f->runs[run], 1, F + 64 + 64 * (i * i % 17));
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 1);
    assert_true(f->partings[0].joined);
    assert_int_equal(f->partings[0].alone[0], 0);
    assert_int_equal(f->partings[0].alone[1], 9 * COFI_DIFF_STEPS);
}

/* Where both have returned they are together, though they part again at once: by what was returned. */
static void together_where_both_return(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        call_and_go_round(&f->runs[run], run ? 1000 : 0);
        for (unsigned i = 0; i < 5; i++)
            add(&f->runs[run], G + 256 * run + 16 * i, 6, COFI_CLASS_JMP);
        loop(&f->runs[run], 9, F);
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 2);
    assert_int_equal(f->partings[0].alone[0], 1);
    assert_int_equal(f->partings[0].alone[1], 3001);
    assert_int_equal(f->partings[1].at[0], f->partings[0].at[0] + 1 + 2);
    assert_int_equal(f->partings[1].alone[0], 30);
    assert_int_equal(f->partings[1].alone[1], 30);
}

/* A handler ran in the middle of a block, in one run only. */
static void an_interrupt_is_of_one_run_alone(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        loop(&f->runs[run], 2, F);
        add(&f->runs[run], MAIN + 16, run ? 2 : 5, run ? COFI_CLASS_OTHER : COFI_CLASS_CALL);
        if (run) {
            interrupt(&f->runs[run], MAIN + 18, G);
            add(&f->runs[run], G, 20, COFI_CLASS_FAR_RET);
            add(&f->runs[run], MAIN + 18, 3, COFI_CLASS_CALL);
        }
        add(&f->runs[run], F, 7, COFI_CLASS_RET);
        add(&f->runs[run], MAIN + 21, 2, COFI_CLASS_JCC);
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 1);
    assert_int_equal(f->partings[0].at[0], 16 + 2 * 14 + 2);
    assert_int_equal(f->partings[0].alone[0], 0);
    assert_int_equal(f->partings[0].alone[1], 20);
}

static void a_gap_is_gone_past(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        for (unsigned i = 0; i < 100; i++)
            if (run == 0 && i >= 20 && i < 60) {
                if (i == 20)
                    add(&f->runs[run], 0, 0, 0);
            } else {
                loop(&f->runs[run], 1, F + 64 * i);
            }
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 1);
    assert_true(f->partings[0].joined);
    assert_int_equal(f->partings[0].at[0], 16 + 20 * 14);
    assert_int_equal(f->partings[0].alone[0], 0);
    assert_int_equal(f->partings[0].alone[1], 40 * 14);
}

/* In a call that would be passed over: nobody knows whether that returned. */
static void a_gap_in_a_call_is_not_passed_over(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        add(&f->runs[run], MAIN + 16, 5, COFI_CLASS_CALL);
        if (!run) {
            add(&f->runs[run], G, 2, COFI_CLASS_CALL);
            add(&f->runs[run], F + 64, 3, COFI_CLASS_JCC);
            add(&f->runs[run], 0, 0, 0);
            add(&f->runs[run], F + 64, 3, COFI_CLASS_RET);
        }
        add(&f->runs[run], run ? F : G + 2, 7, COFI_CLASS_RET);
        add(&f->runs[run], MAIN + 21, 2, COFI_CLASS_JCC);
        loop(&f->runs[run], 100, F);
        end(&f->runs[run]);
    }
    compare(f);
    assert_int_equal(f->n, 2);
    assert_false(f->partings[0].joined);
    assert_true(f->partings[1].joined);
    assert_int_equal(f->partings[0].alone[0], 5);
    assert_int_equal(all_alone(f), 5 + 3 + 7 + 7);
}

static void who_ends_first_has_no_more(void **state)
{
    struct fixture *f = *state;
    begin(&f->runs[0]);
    begin(&f->runs[1]);
    loop(&f->runs[1], 9, F);
    compare(f);
    assert_int_equal(f->n, 1);
    assert_false(f->partings[0].joined);
    assert_int_equal(f->partings[0].alone[1], 9 * 14);
    forget(f);
    loop(&f->runs[0], 9, F);
    compare(f);
    assert_int_equal(f->n, 1);
    assert_int_equal(f->partings[0].alone[0], 9 * 14);
    forget(f);
    compare(f);
    assert_int_equal(f->n, 0);
}

/* ---- by calls ---- */

static int count_alone(void *opaque, unsigned of, const struct cofi_diff_step *steps, size_t n)
{
    struct fixture *f = opaque;
    for (size_t i = 0; i < n; i++)
        f->partings[f->n].alone[of] += steps[i].insns;
    return 0;
}

static void compare_calls(struct fixture *f)
{
    const struct cofi_diff_options options = {.size = sizeof options, .calls = true};
    const struct cofi_diff_visitor with = {more, parted, count_alone, joined, f};
    assert_int_equal(cofi_diff_open(&f->diff, &options), 0);
    assert_int_equal(cofi_diff_run(f->diff, &with), 0);
    assert_int_equal(cofi_diff_insns(f->diff, 0) - f->partings[0].alone[0], cofi_diff_insns(f->diff, 1) - f->partings[0].alone[1]);
    cofi_diff_close(f->diff);
}

/* Rounds that call a function each, from this one on. */
static void call_each(struct run *run, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        loop(run, 1, F + 16 * i);
}

/* What functions do otherwise does not matter. */
static void calls_are_compared_alone(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        call_each(&f->runs[run], 0, 20);
        for (unsigned i = 0; run && i < 9; i++)
            add(&f->runs[run], MAIN + 21, 2, COFI_CLASS_JCC);
        call_each(&f->runs[run], 20, run ? 23 : 20);
        end(&f->runs[run]);
    }
    compare_calls(f);
    assert_int_equal(f->n, 1);
    assert_int_equal(f->partings[0].at[0], 1 + 20 + 20);
    assert_int_equal(f->partings[0].alone[0], 0);
    assert_int_equal(f->partings[0].alone[1], 3);
}

/* In one run they lie a frame deeper, as if their caller had not become part of its own there. */
static void calls_far_away_are_found_at_any_depth(void **state)
{
    struct fixture *f = *state;
    for (unsigned run = 0; run < 2; run++) {
        begin(&f->runs[run]);
        call_each(&f->runs[run], 0, 20);
        call_each(&f->runs[run], run ? 200 : 100, 100);
        if (run)
            add(&f->runs[run], MAIN + 0x800, 5, COFI_CLASS_CALL);
        call_each(&f->runs[run], 300, 50);
    }
    compare_calls(f);
    assert_int_equal(f->n, 1);
    assert_true(f->partings[0].joined);
    assert_int_equal(f->partings[0].alone[0], 100);
    assert_int_equal(f->partings[0].alone[1], 101);
}

/* ---- programs made at random ---- */

enum { FUNCTIONS = 12, STATEMENTS = 10, MOST = 200000 };
enum kind { PLAIN, IF, LOOP, CALL };

struct program {
    uint64_t seed, flip; /* the decision that is another one; 0: none */
    uint64_t nth;        /* which one flip is to be told of */
    uint64_t decisions;
    struct run *run;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) + UINT64_C(0x632be59bd9b4e019);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t statement(const struct program *p, unsigned function, unsigned i) { return mix(mix(p->seed, function + 1), i); }
static enum kind kind_of(const struct program *p, unsigned function, unsigned i) { return (enum kind)(statement(p, function, i) % 4); }
static uint64_t address(unsigned function, unsigned i) { return 0x10000 + function * 0x1000 + i * 0x40; }

/* One of few, which depends on who called, and how often this was decided there. */
static bool decide(struct program *p, uint64_t where, unsigned of)
{
    bool yes = mix(where, 77) % of;
    if (p->nth == ++p->decisions)
        p->flip = where;
    return yes ^ (!p->nth && p->flip == where);
}

static void execute(struct program *p, unsigned function, uint64_t context, unsigned depth)
{
    unsigned visits[STATEMENTS] = {0};
    for (unsigned i = 0; i < STATEMENTS && p->run->n < MOST; i++) {
        uint64_t s = statement(p, function, i), here = mix(mix(context, i), ++visits[i]), at = address(function, i);
        uint32_t n = 1 + (uint32_t)(s >> 8) % 12;
        unsigned callee = (unsigned)(s >> 16) % FUNCTIONS;
        switch (kind_of(p, function, i)) {
        case PLAIN: add(p->run, at, n, COFI_CLASS_JMP); break;
        case IF:
            add(p->run, at, n, COFI_CLASS_JCC);
            i += decide(p, here, 2) ? 1 + (unsigned)(s >> 24) % 3 : 0;
            break;
        case LOOP:
            add(p->run, at, n, COFI_CLASS_JCC);
            if (i && decide(p, here, 4))
                i -= 1 + (unsigned)(s >> 32) % (i < 3 ? i : 3);
            break;
        case CALL:
            if (depth < 6) {
                add(p->run, at, n, COFI_CLASS_CALL);
                execute(p, callee, here, depth + 1);
            }
            add(p->run, at + n, 2, COFI_CLASS_JMP);
            break;
        }
    }
    add(p->run, address(function, STATEMENTS), 1, COFI_CLASS_RET);
}

/* The fewest instructions that two runs can have for themselves: all but the longest common subsequence [Myers 1986]. 0: more than most. */
static size_t least_alone(const struct run *a, const struct run *b, size_t most)
{
    long *furthest = calloc(2 * most + 3, sizeof *furthest), *at = furthest + most + 1;
    size_t found = 0;
    for (long d = 0; d <= (long)most && !found; d++)
        for (long k = -d; k <= d && !found; k += 2) {
            long x = k == -d || (k != d && at[k - 1] < at[k + 1]) ? at[k + 1] : at[k - 1] + 1, y = x - k;
            while (x < (long)a->insns && y < (long)b->insns && a->ips[x] == b->ips[y])
                x++, y++;
            at[k] = x;
            if (x >= (long)a->insns && y >= (long)b->insns)
                found = (size_t)d + 1;
        }
    free(furthest);
    return found ? found - 1 : 0;
}

/* Of one decision others follow: the functions' loops go on otherwise. */
static void another_decision_is_found(void **state)
{
    enum { LEAST_MOST = 4000 };
    struct fixture *f = *state;
    size_t compared = 0, told = 0, least_told = 0;
    for (uint64_t seed = 1; seed < 300; seed++) {
        forget(f);
        struct program a = {.seed = seed, .run = &f->runs[0], .nth = 1 + mix(seed, 5) % 300}, b = {.seed = seed, .run = &f->runs[1]};
        f->piece = 1 + mix(seed, 9) % 1000;
        execute(&a, 0, 1, 0);
        b.flip = a.flip;
        execute(&b, 0, 1, 0);
        if (!a.flip || f->runs[0].n >= MOST || f->runs[1].n >= MOST)
            continue;
        compare(f);
        size_t least = least_alone(&f->runs[0], &f->runs[1], LEAST_MOST);
        assert_true(all_alone(f) >= least);
        if (!least)
            continue;
        compared++;
        told += all_alone(f);
        least_told += least;
    }
    printf("# %zu programs: %zu instructions of one alone, at least %zu\n", compared, told, least_told);
    assert_true(compared > 100);
    assert_true(told < least_told + least_told / 2);
}

static void a_plain_name_is_without_what_compilers_add(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t plain;
    } rows[] = {{"work", 4},           {"work.part.0.cold", 4}, {"work.cold", 4},          {"work.cold.3", 4},
                {"work.coldest", 12},  {"main.coldStart", 14},  {"x.localaliases", 14},    {"work(int) [clone .cold]", 9},
                {".cold", 5},          {"a.coldest.cold", 9},   {"work.constprop.0", 4},   {"", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(cofi_diff_plain_name(rows[i].name), rows[i].plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_plain_name_is_without_what_compilers_add),
        TEST(the_same_does_not_part),
        TEST(more_iterations_are_one_parting),
        TEST(one_operation_more_does_not_shift_the_rest),
        TEST(a_long_call_is_passed_over),
        TEST(who_has_returned_waits),
        TEST(together_where_both_return),
        TEST(an_interrupt_is_of_one_run_alone),
        TEST(a_gap_is_gone_past),
        TEST(a_gap_in_a_call_is_not_passed_over),
        TEST(who_ends_first_has_no_more),
        TEST(calls_are_compared_alone),
        TEST(calls_far_away_are_found_at_any_depth),
        TEST(another_decision_is_found),
    };
    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}

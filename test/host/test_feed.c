/* SPDX-License-Identifier: MIT
 * From what a thread did to what the observers are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/user.h>
#include <cmocka.h>

#include "base/error.h"
#include "host/feed.h"
#include "host/step/code.h"

/* What was told, as letters: event kinds, sideband, begin and end. */
struct log {
    char text[400];
    struct cofi_event last;
    uint64_t sideband_ns, stamp_tsc;
};

static void note(struct log *log, const char *word)
{
    strncat(log->text, word, sizeof log->text - strlen(log->text) - 1);
}

static int on_begin(void *log, const struct cofi_task *task, const struct cofi_context *context,
                    const struct cofi_event *clock)
{
    assert_int_equal(context->cpl, 0);
    assert_int_equal(clock->kind, COFI_EV_CLOCK);
    note(log, task->tid == 1 ? "begin1 " : "begin2 ");
    return 0;
}

static int on_event(void *opaque, const struct cofi_task *task, const struct cofi_event *event)
{
    struct log *log = opaque;
    log->last = *event;
    if (event->kind == COFI_EV_CLOCK || event->kind == COFI_EV_FREQ)
        return 0;
    if (event->kind == COFI_EV_WAKE)
        log->stamp_tsc = event->tsc;
    note(log, task->tid == 1 ? "1:" : "2:");
    note(log, event->kind == COFI_EV_WAKE    ? "wake "
              : event->kind == COFI_EV_FAR   ? (event->after.cpl ? "return " : "call ")
              : event->kind == COFI_EV_EVENT ? "event "
              : event->kind == COFI_EV_JCC   ? (event->taken ? "taken " : "not ")
                                             : "insn ");
    return 0;
}

static int on_sideband(void *opaque, const struct cofi_sideband *sideband)
{
    struct log *log = opaque;
    log->sideband_ns = sideband->time_ns;
    if (sideband->kind == COFI_SB_SWITCH)
        note(log, sideband->out ? "out " : "in ");
    if (sideband->kind == COFI_SB_CODE)
        note(log, "code ");
    return 0;
}

static int on_end(void *log, const struct cofi_task *task)
{
    note(log, task->tid == 1 ? "end1 " : "end2 ");
    return 0;
}

struct rig {
    struct log log;
    struct cofi_observer observer;
    const struct cofi_observer *list;
    struct cofi__feed feed;
    struct cofi__cpu one, two;
};

static void set_up(struct rig *rig)
{
    *rig = (struct rig){0};
    rig->observer =
        (struct cofi_observer){&rig->log, on_begin, on_event, NULL, on_sideband, on_end};
    rig->list = &rig->observer;
    cofi__feed_init(&rig->feed, &rig->list, 1, false);
    rig->one.task = (struct cofi_task){.pid = 1, .tid = 1};
    rig->two.task = (struct cofi_task){.pid = 1, .tid = 2};
    cofi__feed_begin(&rig->feed, &rig->one);
    cofi__feed_return(&rig->feed, &rig->one, 0x1000, 64);
}

static const struct cofi_insn plain = {.length = 2, .cls = COFI_CLASS_OTHER};

static void run(struct rig *rig, struct cofi__cpu *cpu)
{
    cofi__feed_retire(&rig->feed, cpu, &plain, cpu->ip, cpu->ip + 2, 64, false);
}

static void a_thread_begins_in_the_kernel_and_returns_with_a_full_time_stamp(void **state)
{
    (void)state;
    struct rig rig;
    set_up(&rig);
    assert_string_equal(rig.log.text, "begin1 in 1:wake 1:return ");
}

static void another_threads_turn_interrupts_the_last_and_stamps_both(void **state)
{
    (void)state;
    struct rig rig;
    set_up(&rig);
    cofi__feed_begin(&rig.feed, &rig.two);
    rig.log.text[0] = 0;
    rig.one.in_kernel = true; /* already interrupted by the record of the birth */
    cofi__feed_return(&rig.feed, &rig.one, 0x1000, 64);
    run(&rig, &rig.one);
    cofi__feed_return(&rig.feed, &rig.two, 0x2000, 64);
    run(&rig, &rig.two);
    cofi__feed_return(&rig.feed, &rig.one, 0x1002, 64);
    assert_string_equal(rig.log.text,
                        "1:wake 1:return 1:insn 1:event out in 2:wake 2:return 2:insn "
                        "2:event out in 1:wake 1:return ");
}

static void a_change_lies_between_an_interruption_and_a_later_stamp(void **state)
{
    (void)state;
    struct rig rig;
    set_up(&rig);
    run(&rig, &rig.one);
    uint64_t before = rig.feed.tsc;
    rig.log.text[0] = 0;
    struct cofi_sideband code = {.kind = COFI_SB_CODE, .pid = 1, .tid = 1};
    cofi__feed_sideband(&rig.feed, &code);
    cofi__feed_return(&rig.feed, &rig.one, rig.one.ip, 64);
    assert_string_equal(rig.log.text, "1:event code 1:wake 1:return ");
    assert_true(before + 400 < rig.log.sideband_ns);
    assert_true(rig.log.sideband_ns + 400 < rig.log.stamp_tsc);
}

static void nothing_changed_no_stamp(void **state)
{
    (void)state;
    struct rig rig;
    set_up(&rig);
    static const struct cofi_insn call = {
        .length = 2, .cls = COFI_CLASS_FAR_CALL, .far = COFI_FAR_SYSCALL};
    rig.log.text[0] = 0;
    cofi__feed_call_kernel(&rig.feed, &rig.one, &call, 0x1000, COFI_NO_VECTOR);
    cofi__feed_return(&rig.feed, &rig.one, 0x1002, 64);
    assert_string_equal(rig.log.text, "1:call 1:return ");
    assert_int_equal(rig.log.last.cause, COFI_FAR_SYSRET);
}

static void the_end_interrupts_first(void **state)
{
    (void)state;
    struct rig rig;
    set_up(&rig);
    rig.log.text[0] = 0;
    cofi__feed_end(&rig.feed, &rig.one);
    cofi__feed_end(&rig.feed, &rig.one);
    assert_string_equal(rig.log.text, "1:event out end1 ");
}

struct row {
    uint8_t bytes[8];
    uint64_t to;     /* where it led, from 0x1000 in 64-bit mode */
    bool plausible;
    enum cofi_event_kind kind;
    bool taken;
};

static const struct row rows[] = {
    {{0x90}, 0x1001, true, COFI_EV_INSN, false},
    {{0x90}, 0x1002, false, COFI_EV_INSN, false},
    {{0x74, 0x10}, 0x1012, true, COFI_EV_JCC, true},
    {{0x74, 0x10}, 0x1002, true, COFI_EV_JCC, false},
    {{0x74, 0x10}, 0x1003, false, COFI_EV_JCC, true},
    {{0xe2, 0xfe}, 0x1000, true, COFI_EV_JCC, true},
    {{0xeb, 0x10}, 0x1012, true, COFI_EV_JMP, false},
    {{0xeb, 0x10}, 0x1002, false, COFI_EV_JMP, false},
    {{0xe8, 0, 0, 0, 0}, 0x1005, true, COFI_EV_CALL, false},
    {{0xff, 0xe0}, 0x7777, true, COFI_EV_JMP_IND, false},
    {{0xff, 0xd0}, 0x7777, true, COFI_EV_CALL_IND, false},
    {{0xc3}, 0x7777, true, COFI_EV_RET, false},
    {{0xcb}, 0x7777, true, COFI_EV_FAR, false},
};

static void an_instruction_and_where_it_led_give_its_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct step_code code;
        struct cofi_event event;
        assert_true(cofi__step_code_decode(&code, rows[i].bytes, sizeof rows[i].bytes, 0x1000, 64) > 0);
        assert_int_equal(cofi__derive_plausible(&code.insn, 0x1000, rows[i].to, 64),
                         rows[i].plausible);
        cofi__derive(&event, &code.insn, 0x1000, cofi__derive_next(&code.insn, 0x1000, 64),
                     rows[i].to, false);
        assert_int_equal(event.kind, rows[i].kind);
        if (rows[i].plausible && event.kind == COFI_EV_JCC)
            assert_int_equal(event.taken, rows[i].taken);
    }
}

static void flags_decide_a_branch_to_its_own_successor(void **state)
{
    (void)state;
    /* Low bits of the opcode, flags, taken (SDM, volume 1, appendix EFLAGS condition codes). */
    static const struct { uint8_t opcode; uint64_t flags; bool taken;
    } flag_rows[] = {
        {0x70, 0x800, true}, {0x71, 0x800, false}, {0x72, 1, true},     {0x73, 0, true},
        {0x74, 0x40, true},  {0x75, 0x40, false},  {0x76, 1, true},     {0x76, 0x40, true},
        {0x77, 0, true},     {0x78, 0x80, true},   {0x7a, 4, true},     {0x7b, 4, false},
        {0x7c, 0x80, true},  {0x7c, 0x880, false}, {0x7d, 0x880, true}, {0x7e, 0x40, true},
        {0x7e, 0x800, true}, {0x7f, 0, true},      {0x7f, 0x40, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(flag_rows); i++) {
        struct step_code code;
        uint8_t bytes[2] = {flag_rows[i].opcode, 0};
        struct user_regs_struct regs = {.eflags = flag_rows[i].flags};
        assert_int_equal(cofi__step_code_decode(&code, bytes, 2, 0x1000, 64), 2);
        assert_int_equal(cofi__step_code_taken(&code, &regs, 64), flag_rows[i].taken);
    }
    struct step_code loop;
    struct user_regs_struct regs = {.rcx = 1};
    cofi__step_code_decode(&loop, (const uint8_t[]){0xe2, 0}, 2, 0x1000, 64);
    assert_false(cofi__step_code_taken(&loop, &regs, 64));
    regs.rcx = UINT64_C(1) << 32 | 1;
    assert_true(cofi__step_code_taken(&loop, &regs, 64));
    cofi__step_code_decode(&loop, (const uint8_t[]){0x67, 0xe2, 0}, 3, 0x1000, 64);
    assert_false(cofi__step_code_taken(&loop, &regs, 64));
    cofi__step_code_decode(&loop, (const uint8_t[]){0xe3, 0}, 2, 0x1000, 64);
    regs.rcx = 0;
    assert_true(cofi__step_code_taken(&loop, &regs, 64));
}

static void what_stepping_must_know_is_found_in_the_bytes(void **state)
{
    (void)state;
    struct step_code c;
    cofi__step_code_decode(&c, (const uint8_t[]){0xf3, 0x48, 0xab}, 3, 0, 64);
    assert_true(c.string);
    cofi__step_code_decode(&c, (const uint8_t[]){0xf3, 0xc3}, 2, 0, 64);
    assert_false(c.string);
    cofi__step_code_decode(&c, (const uint8_t[]){0x66, 0x9c}, 2, 0, 64);
    assert_true(c.pushf);
    cofi__step_code_decode(&c, (const uint8_t[]){0x9d}, 1, 0, 64);
    assert_true(c.sets_tf);
    cofi__step_code_decode(&c, (const uint8_t[]){0x8e, 0xd0}, 2, 0, 64);
    assert_true(c.load_ss);
    cofi__step_code_decode(&c, (const uint8_t[]){0x8e, 0xd8}, 2, 0, 64);
    assert_false(c.load_ss);
    cofi__step_code_decode(&c, (const uint8_t[]){0x17}, 1, 0, 32);
    assert_true(c.load_ss);
    cofi__step_code_decode(&c, (const uint8_t[]){0xcd, 0x80}, 2, 0, 64);
    assert_true(c.syscall);
    assert_int_equal(c.vector, 0x80);
    cofi__step_code_decode(&c, (const uint8_t[]){0xcd, 0x03}, 2, 0, 64);
    assert_false(c.syscall);
    cofi__step_code_decode(&c, (const uint8_t[]){0x64, 0x48, 0x89, 0x04, 0x25, 8, 0, 0, 0}, 9, 0, 64);
    assert_true(c.store);
    cofi__step_code_decode(&c, (const uint8_t[]){0x48, 0x89, 0xc3}, 3, 0, 64);
    assert_false(c.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_begins_in_the_kernel_and_returns_with_a_full_time_stamp),
        cmocka_unit_test(another_threads_turn_interrupts_the_last_and_stamps_both),
        cmocka_unit_test(a_change_lies_between_an_interruption_and_a_later_stamp),
        cmocka_unit_test(nothing_changed_no_stamp),
        cmocka_unit_test(the_end_interrupts_first),
        cmocka_unit_test(an_instruction_and_where_it_led_give_its_event),
        cmocka_unit_test(flags_decide_a_branch_to_its_own_successor),
        cmocka_unit_test(what_stepping_must_know_is_found_in_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

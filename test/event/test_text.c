/* SPDX-License-Identifier: MIT
 * The text form of events, both directions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/error.h>
#include <cofi/event.h>

#include "base/error.h"

static const char *const lines[] = {
    "insn ip=401000 next=401002",
    "jcc ip=401000 next=401002 target=401010 taken",
    "jcc ip=401000 next=401002 target=401010",
    "call* ip=401000 next=401002 target=7fff12345678",
    "far syscall ip=1 next=3 target=ffffffff81000000 : cpl=0",
    "far far-jmp ip=1 next=3 target=4 size=4",
    "event intr ip=401010 target=ffffffff81000000 vector=32 : cpl=0 if=0",
    "event fault ip=401010 vector=14 deferred :",
    "boundary ip=ffffffff81000000",
    "mov-cr3 ip=1 next=4 : cr3=12345000",
    "wrmsr ip=1 next=3 msr=768 value=200d",
    "ptwrite ip=1 next=6 value=1234567890abcdef size=8",
    "clock tsc=1000 cycles=800",
    "freq ratio=18 effective=12 tsc=5 cycles=6",
    "far vmentry ip=1 next=4 target=9 msr=768 control=200d : vmx=2",
    "wake cause=3 size=6 tsc=18446744073709551615",
    "ovf",
};

static void printing_a_parsed_line_gives_the_line(void **state)
{
    (void)state;
    const struct cofi_context before = {.vmcs = UINT64_MAX, .cpl = 3, .iflag = true, .mode = 64};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct cofi_event event;
        struct cofi_error error = {0};
        char text[256];
        assert_int_equal(cofi_event_parse(lines[i], &before, &event, &error), 0);
        assert_int_equal(cofi_event_print(&event, &before, text, sizeof text), strlen(lines[i]));
        assert_string_equal(text, lines[i]);
    }
}

static struct cofi_context any_context(void)
{
    return (struct cofi_context){
        .cr3 = (uint64_t)rand() << 12, .vmcs = rand() % 2 ? UINT64_MAX : (uint64_t)rand() << 12,
        .cs_base = rand() % 3 ? 0 : (uint64_t)rand(), .cpl = rand() % 4, .mode = 16 << rand() % 3, .iflag = rand() % 2,
        .cr0_pg = rand() % 2, .pae = rand() % 2, .smm = rand() % 2, .vmx = rand() % 3, .enclave = rand() % 2,
        .intx = rand() % 2};
}

static struct cofi_event any_event(const struct cofi_context *before)
{
    struct cofi_event e = {.kind = rand() % COFI_EVENT_KINDS, .vector = rand() % 2 ? COFI_NO_VECTOR : rand() % 256,
                           .after = *before};
    e.cause = rand() % (e.kind == COFI_EV_FAR ? COFI_FAR_KINDS : e.kind == COFI_EV_EVENT ? COFI_CAUSE_KINDS : 256);
    e.taken = rand() % 2;
    e.deferred = rand() % 2;
    e.ip = (uint64_t)rand() << 17 ^ rand();
    e.next = e.ip + rand() % 16;
    e.target = rand() % 2 ? 0 : ~(uint64_t)rand();
    e.value = rand() % 2 ? 0 : ~(uint64_t)rand();
    e.value2 = rand() % 2 ? 0 : (uint64_t)rand();
    e.control = rand() % 2 ? 0 : (uint64_t)rand();
    e.msr = rand() % 2 ? 0 : 0x768;
    e.size = rand() % 256;
    e.tsc = rand() % 2 ? 0 : UINT64_MAX - rand();
    e.cycles = (uint64_t)rand() * rand();
    if (rand() % 2) {
        e.context_set = true;
        e.after = any_context();
    }
    return e;
}

static void parsing_a_printed_event_gives_the_event(void **state)
{
    (void)state;
    srand(1);
    for (int i = 0; i < 100000; i++) {
        struct cofi_context before = any_context();
        struct cofi_event event = any_event(&before), back;
        char text[512], again[512];
        assert_true(cofi_event_print(&event, &before, text, sizeof text) < (int)sizeof text);
        assert_int_equal(cofi_event_parse(text, &before, &back, NULL), 0);
        cofi_event_print(&back, &before, again, sizeof again);
        assert_string_equal(text, again);
        assert_int_equal(event.ip, back.ip);
        assert_int_equal(event.after.cr3, back.after.cr3);
        assert_int_equal(event.context_set, back.context_set);
    }
}

static void a_bad_line_is_refused_with_the_place(void **state)
{
    (void)state;
    static const struct { const char *text; int status; uint64_t at; } bad[] = {
        {"", COFI_ERR_SYNTAX, 0},           {"nothing", COFI_ERR_SYNTAX, 0},
        {"far", COFI_ERR_SYNTAX, 3},        {"far jump", COFI_ERR_SYNTAX, 4},
        {"jcc ip=", COFI_ERR_SYNTAX, 7},    {"jcc ip=xyz", COFI_ERR_SYNTAX, 7},
        {"jcc ip=1z", COFI_ERR_SYNTAX, 7},  {"jcc pi=1", COFI_ERR_SYNTAX, 4},
        {"jcc maybe", COFI_ERR_SYNTAX, 4},  {"clock tsc=ff", COFI_ERR_SYNTAX, 10},
        {"insn cpl=4", COFI_ERR_RANGE, 9},  {"insn ip=10000000000000000", COFI_ERR_RANGE, 8},
        {"insn ip=-1", COFI_ERR_SYNTAX, 8},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct cofi_event event;
        struct cofi_error error = {0};
        assert_int_equal(cofi_event_parse(bad[i].text, NULL, &event, &error), bad[i].status);
        assert_int_equal(error.offset, bad[i].at);
        assert_true(error.text[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printing_a_parsed_line_gives_the_line),
        cmocka_unit_test(parsing_a_printed_event_gives_the_event),
        cmocka_unit_test(a_bad_line_is_refused_with_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

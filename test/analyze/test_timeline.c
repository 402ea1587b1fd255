/* SPDX-License-Identifier: MIT
 * Calls and times as they are told -> when each begins and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/present.h>

static char drawn[1 << 16];
static size_t drawn_n, put_n;
static int put_status;
static struct cofi_timeline *line;

/* What does not fit is counted only. */
static int put(void *opaque, const char *bytes, size_t n)
{
    (void)opaque;
    put_n += n;
    if (n < sizeof drawn - drawn_n) {
        memcpy(drawn + drawn_n, bytes, n);
        drawn_n += n;
    }
    return put_status;
}

static void begin(uint64_t least_insns)
{
    const struct cofi_timeline_options options = {.size = sizeof options, .put = put, .comm = "t", .depth = 8, .least_insns = least_insns,
                                                  .first = true};
    drawn_n = put_n = 0;
    put_status = 0;
    assert_int_equal(cofi_timeline_open(&line, &options), 0);
}

static void enter(const char *name, uint64_t insns) { cofi_timeline_enter(line, &(struct cofi_function){.name = name}, insns); }

/* "a 1.000, [untraced] 1.010, + 2.000, - 2.000": names and times of what begins, times when tracing goes on and calls end. */
static void assert_drawn(uint64_t insns, const char *want)
{
    char name[64], got[1000] = "";
    double ts;
    assert_int_equal(cofi_timeline_end(line, insns), 0);
    cofi_timeline_close(line);
    drawn[drawn_n] = '\0';
    for (char *text = strtok(drawn, "\n"); text; text = strtok(NULL, "\n")) {
        const char *at = strstr(text, "\"ts\":");
        if (!at || sscanf(at, "\"ts\":%lf,\"name\":\"%63[^\"]", &ts, name) < 1)
            continue;
        sprintf(got + strlen(got), "%s%s %.3f", *got ? ", " : "", strstr(text, "\"ph\":\"B\"") ? name : strstr(text, "insns") ? "-" : "+", ts);
    }
    assert_string_equal(got, want);
}

static void instructions_share_the_time_between_two_that_are_told(void **state)
{
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    enter("b", 10);
    cofi_timeline_leave(line, 20);
    cofi_timeline_time(line, 1400, 40);
    enter("c", 50);
    cofi_timeline_time(line, 1420, 60);
    assert_drawn(60, "a 1.000, b 1.100, - 1.200, c 1.410, - 1.420, - 1.420");
}

static void what_is_untraced_has_the_rest(void **state)
{
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    cofi_timeline_off(line, "untraced", 10);
    cofi_timeline_time(line, 2000, 10);
    cofi_timeline_off(line, "untraced", 20); /* two in a row, the time is told behind the second */
    enter("b", 20);
    cofi_timeline_off(line, "untraced", 30);
    cofi_timeline_time(line, 2220, 30);
    assert_drawn(30, "a 1.000, [untraced] 1.010, + 2.000, [untraced] 2.010, + 2.110, b 2.110, [untraced] 2.120, + 2.220, - 2.220, - 2.220");
}

static void fast_code_is_as_fast_where_some_of_it_is_untraced(void **state)
{
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    cofi_timeline_off(line, "untraced", 100);
    cofi_timeline_time(line, 1050, 100);
    enter("b", 200);
    cofi_timeline_time(line, 1250, 300);
    assert_drawn(300, "a 1.000, [untraced] 1.050, + 1.050, b 1.150, - 1.250, - 1.250");
}

static void a_call_that_is_shown_late_began_when_it_began(void **state)
{
    (void)state;
    begin(7);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    enter("b", 2);
    enter("short", 3);
    cofi_timeline_leave(line, 4);
    cofi_timeline_time(line, 1100, 4);
    cofi_timeline_leave(line, 9);
    enter("short, too", 10);
    cofi_timeline_time(line, 1200, 14);
    cofi_timeline_leave(line, 14);
    enter("c", 15); /* where "short, too" was when the time was told */
    cofi_timeline_time(line, 1300, 18);
    cofi_timeline_leave(line, 25);
    assert_drawn(25, "a 1.000, b 1.050, - 1.150, c 1.225, - 1.475, - 1.475");
}

/* In order, as the format wants it, and what waited lies in what turns out to be long enough. */
static void a_call_that_waited_before_it_was_long_enough_holds_the_wait(void **state)
{
    (void)state;
    begin(7);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    enter("b", 9);
    enter("short", 10);
    cofi_timeline_off(line, "untraced", 12);
    cofi_timeline_time(line, 2000, 12);
    cofi_timeline_leave(line, 13);
    cofi_timeline_off(line, "untraced", 14);
    cofi_timeline_time(line, 3000, 14);
    cofi_timeline_leave(line, 17);
    cofi_timeline_time(line, 3100, 18);
    assert_drawn(18, "a 1.000, b 1.009, [untraced] 1.012, + 2.000, [untraced] 2.002, + 3.000, - 3.075, - 3.100");
}

static void what_waits_behind_a_call_too_long_shows_it(void **state)
{
    enum { WAITS = 1 << 17 };
    (void)state;
    begin(UINT64_C(1) << 20);
    enter("a", 0);
    for (uint64_t i = 1; i <= WAITS + 1; i++) {
        cofi_timeline_off(line, "untraced", i);
        cofi_timeline_time(line, 1000 * i, i);
    }
    assert_true(put_n > WAITS * 20);
    assert_non_null(memmem(drawn, drawn_n, "\"a\"", 3));
    assert_int_equal(cofi_timeline_end(line, 2 * WAITS), 0);
    cofi_timeline_close(line);
}

static void what_comes_before_the_first_time_lies_before_it(void **state)
{
    (void)state;
    begin(0);
    enter("a", 0);
    enter("b", 4);
    cofi_timeline_time(line, 1000, 10);
    assert_drawn(12, "a 0.990, b 0.994, - 1.002, - 1.002");
}

static void without_times_an_instruction_is_a_nanosecond(void **state)
{
    (void)state;
    begin(0);
    enter("a", 0);
    cofi_timeline_off(line, "untraced", 3);
    cofi_timeline_leave(line, 5);
    assert_drawn(5, "a 0.000, [untraced] 0.003, + 0.005, - 0.005");
}

static void behind_the_last_time_it_goes_on_as_before(void **state)
{
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    cofi_timeline_time(line, 2000, 100);
    enter("b", 110);
    assert_drawn(120, "a 1.000, b 2.100, - 2.200, - 2.200");
}

static void time_does_not_go_back(void **state)
{
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    cofi_timeline_time(line, 900, 10);
    enter("b", 20);
    cofi_timeline_time(line, 1100, 100);
    assert_drawn(100, "a 1.000, b 1.020, - 1.100, - 1.100");
}

/* ---- as SQL ---- */

static void begin_sql(void)
{
    const struct cofi_timeline_options options = {.size = sizeof options, .put = put, .comm = "it's", .depth = 8, .format = COFI_TIMELINE_SQL,
                                                  .number = 2, .pid = 5, .tid = 6};
    drawn_n = put_n = 0;
    put_status = 0;
    assert_int_equal(cofi_timeline_open(&line, &options), 0);
    cofi_timeline_time(line, 1000, 0);
}

/* A row of a table that holds the text; then whatever was put. */
static void assert_row(const char *table, const char *text)
{
    drawn[drawn_n] = '\0';
    size_t n = strlen(table);
    for (const char *at = drawn; (at = strstr(at, table)); at += n)
        if ((size_t)(strstr(at, text) - at) < (size_t)(strchr(at, '\n') - at))
            return;
    fail_msg("no row of %s with %s in\n%s", table, text, drawn);
}

static void a_row_tells_what_a_call_lies_in_and_what_runs_at_the_end(void **state)
{
    enum { FIRST = 1 };
    (void)state;
    begin_sql();
    enter("a", 0);
    enter("b", 10);
    cofi_timeline_leave(line, 20);
    cofi_timeline_gap(line, "no code", 20);
    cofi_timeline_off(line, "untraced", 20);
    cofi_timeline_time(line, 1100, 20);
    assert_int_equal(cofi_timeline_end(line, 30), 0);
    cofi_timeline_close(line);
    uint64_t number = UINT64_C(2) << 40;
    char gap[64], untraced[64];
    sprintf(gap, "2,%llu,1020,'no code');", (unsigned long long)number + FIRST);
    sprintf(untraced, "2,%llu,1020,1100,'untraced');", (unsigned long long)number + FIRST);
    assert_row("threads VALUES", "(2,1,5,5,6);");
    assert_row("comms VALUES", "(2,'it''s',2,0,0);");
    assert_row("calls VALUES", ",1010,1020,0,NULL,NULL,");
    assert_row("calls VALUES", ",1,2,0,30,0);"); /* on a path from the root, no return, in no call, 30 instructions */
    assert_row("gaps VALUES", gap);
    assert_row("untraced VALUES", untraced);
}

/* SQLite's shell obeys lines that begin with a dot. */
static void a_name_says_nothing_to_the_shell(void **state)
{
    (void)state;
    begin_sql();
    enter("x');\n.shell true\n", 0);
    enter("\xff\xc3\xa4", 1);
    assert_int_equal(cofi_timeline_end(line, 2), 0);
    cofi_timeline_close(line);
    assert_row("symbols VALUES", ",'x'');?.shell true?');");
    assert_row("symbols VALUES", ",'\xef\xbf\xbd\xc3\xa4');");
    assert_null(strstr(drawn, "\n."));
}

static void formats_that_are_none_are_refused(void **state)
{
    (void)state;
    const struct cofi_timeline_options options = {.size = sizeof options, .put = put, .comm = "t", .format = (enum cofi_timeline_format)2};
    assert_int_equal(cofi_timeline_open(&line, &options), COFI_ERR_UNSUPPORTED);
    assert_string_equal(cofi_timeline_tail(options.format), "");
}

/* Of very many calls without a time between them some are written before it is told. */
static void very_many_do_not_wait(void **state)
{
    enum { CALLS = 1 << 18 };
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    for (uint64_t i = 0; i < CALLS; i++) {
        enter("a", 2 * i);
        cofi_timeline_leave(line, 2 * i + 1);
    }
    assert_true(put_n > CALLS * 20);
    assert_int_equal(cofi_timeline_end(line, 2 * CALLS), 0);
    cofi_timeline_close(line);
}

static void the_first_error_of_put_is_told_at_the_end(void **state)
{
    (void)state;
    begin(0);
    cofi_timeline_time(line, 1000, 0);
    enter("a", 0);
    put_status = COFI_ERR_IO;
    cofi_timeline_time(line, 2000, 100);
    put_status = COFI_ERR_FULL;
    assert_int_equal(cofi_timeline_end(line, 200), COFI_ERR_IO);
    cofi_timeline_close(line);
}

static void options_of_an_impossible_size_are_refused(void **state)
{
    (void)state;
    const struct cofi_timeline_options options = {.size = 8, .put = put, .comm = "t"};
    assert_int_equal(cofi_timeline_open(&line, &options), COFI_ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_share_the_time_between_two_that_are_told),
        cmocka_unit_test(what_is_untraced_has_the_rest),
        cmocka_unit_test(fast_code_is_as_fast_where_some_of_it_is_untraced),
        cmocka_unit_test(a_call_that_is_shown_late_began_when_it_began),
        cmocka_unit_test(a_call_that_waited_before_it_was_long_enough_holds_the_wait),
        cmocka_unit_test(what_waits_behind_a_call_too_long_shows_it),
        cmocka_unit_test(what_comes_before_the_first_time_lies_before_it),
        cmocka_unit_test(without_times_an_instruction_is_a_nanosecond),
        cmocka_unit_test(behind_the_last_time_it_goes_on_as_before),
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(a_row_tells_what_a_call_lies_in_and_what_runs_at_the_end),
        cmocka_unit_test(a_name_says_nothing_to_the_shell),
        cmocka_unit_test(formats_that_are_none_are_refused),
        cmocka_unit_test(very_many_do_not_wait),
        cmocka_unit_test(the_first_error_of_put_is_told_at_the_end),
        cmocka_unit_test(options_of_an_impossible_size_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

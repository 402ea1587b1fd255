/* SPDX-License-Identifier: MIT
 * Symbols' names as sources have them; what would take for ever stays as it is. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/cofi.h>

static struct cofi_demangler *open_names(enum cofi_demangle how)
{
    struct cofi_demangler *names;
    assert_int_equal(cofi_demangler_open(&names, how), 0);
    return names;
}

/* Names as GCC and rustc make them. */
static void shows_names(void **state)
{
    (void)state;
    static const struct { const char *name, *simple, *full; } rows[] = {
        {"_Z3foov", "foo", "foo()"},
        {"_ZN2ns4listIiE4pushERKi", "ns::list<int>::push", "ns::list<int>::push(int const&)"},
        {"_ZNK1AcvbEv", "A::operator bool", "A::operator bool() const"},
        {"_ZN1AC2Ei", "A::A", "A::A(int)"},
        {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()", "main::{lambda()#1}::operator()() const"},
        {"_ZTV1A", "vtable for A", "vtable for A"},
        {"_Z3foov.cold", "foo.cold", "foo().cold"},
        {"_Z3foov.constprop.0", "foo.constprop.0", "foo().constprop.0"},
        {"_ZN1A2goEv@plt", "A::go@plt", "A::go()@plt"},
        {"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad", "core::fmt::Formatter::pad"},
        {"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.123456", "core::fmt::Formatter::pad", "core::fmt::Formatter::pad"},
        {"_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE", "core::ptr::drop_in_place<alloc::string::String>",
         "core::ptr::drop_in_place<alloc::string::String>"},
        {"_ZN46_$LT$a..B$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE.llvm.123.cold", "<a::B as core::ops::drop::Drop>::drop.cold",
         "<a::B as core::ops::drop::Drop>::drop.cold"},
        {"_Z17h0123456789abcdefv.cold", "h0123456789abcdef.cold", "h0123456789abcdef().cold"}, /* C++ that looks like Rust's hash */
        {"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar", "mycrate::foo::bar"},
    };
    struct cofi_demangler *simple = open_names(COFI_DEMANGLE_SIMPLE), *full = open_names(COFI_DEMANGLE_FULL), *no = open_names(COFI_DEMANGLE_NO);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(cofi_demangle(simple, rows[i].name), rows[i].simple);
        assert_string_equal(cofi_demangle(full, rows[i].name), rows[i].full);
        assert_ptr_equal(cofi_demangle(no, rows[i].name), rows[i].name);
    }
    cofi_demangler_close(simple);
    cofi_demangler_close(full);
    cofi_demangler_close(no);
}

/* What is no mangled name comes back itself. */
static void leaves_others(void **state)
{
    (void)state;
    static const char *const names[] = {"main", "", "_", "_Z", "_R", "_start", "_Zebra", "_Rust", "_ZN", "_ZN3foo", "Z3foov", "_ZL", ".cold", "_Z.cold", "@plt"};
    struct cofi_demangler *simple = open_names(COFI_DEMANGLE_SIMPLE);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_ptr_equal(cofi_demangle(simple, names[i]), names[i]);
    assert_null(cofi_demangle(simple, NULL));
    assert_ptr_equal(cofi_demangle(NULL, names[0]), names[0]);
    cofi_demangler_close(simple);
    cofi_demangler_close(NULL);
}

/* The name of substitution k [Itanium C++ ABI, 5.1.10]. */
static void add_substitution(char *name, unsigned k)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[8] = "S_";
    if (k > 36)
        snprintf(text, sizeof text, "S%c%c_", digits[(k - 1) / 36], digits[(k - 1) % 36]);
    else if (k)
        snprintf(text, sizeof text, "S%c_", digits[k - 1]);
    strcat(name, text);
}

/* A type with 2^levels parts: each level is a pair of the one before. `head` comes before it, of which it is a parameter. */
static void double_up(char *name, const char *head, unsigned levels)
{
    strcpy(name, head);
    strcat(name, "1PIiiE"); /* substitutions 0 and 1: P, P<int, int> */
    for (unsigned i = 0; i < levels; i++) {
        strcat(name, "S_I");
        add_substitution(name, i + 1);
        add_substitution(name, i + 1);
        strcat(name, "E");
    }
}

/* Short names that would be written out for ever; and where most of the work is no output (the search for a pack to expand). */
static void bounds_its_time(void **state)
{
    (void)state;
    char name[4096];
    struct cofi_demangler *simple = open_names(COFI_DEMANGLE_SIMPLE), *full = open_names(COFI_DEMANGLE_FULL);
    double_up(name, "_Z1f", 6);
    assert_int_equal(strncmp(cofi_demangle(full, name), "f(P<int, int>, P<P<int, int>, P<int, int> >", 40), 0);
    double_up(name, "_Z1f", 9); /* not many parts, but more than 4 KB of text */
    assert_ptr_equal(cofi_demangle(full, name), name);
    double_up(name, "_Z1f", 40);
    assert_string_equal(cofi_demangle(simple, name), "f"); /* parameters are not written */
    assert_ptr_equal(cofi_demangle(full, name), name);
    double_up(name, "_Z1fI", 40);
    strcat(name, "EvDp");
    add_substitution(name, 41);
    assert_ptr_equal(cofi_demangle(simple, name), name);
    assert_ptr_equal(cofi_demangle(full, name), name);
    cofi_demangler_close(simple);
    cofi_demangler_close(full);
}

/* What needs most of it: types in types, and references to parameters of a template in a name with many others. */
static void *ask_for_deep_names(void *names)
{
    static char name[4096];
    static const struct { const char *begin, *times; unsigned n; const char *then; unsigned then_n; const char *end; } rows[] = {
        {"_Z1f", "P", 4000, "", 0, "i"},
        {"_Z1f", "PF", 1300, "v", 1300, ""},
        {"_Z1f", "1aI", 800, "iE", 800, ""},
        {"_Z1fIX", "ng", 1000, "Li1E", 1, "EEvv"},
        {"_Z", "Z1f", 1000, "v", 1, "E1x"},
        {"_RNv", "Nv", 1000, "C1a", 1, "1b"},
        {"_Z1fI", "1aIiE", 400, "Ev", 1, "RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_"
                                              "RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_"
                                              "RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_RT_"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *at = name + sprintf(name, "%s", rows[i].begin);
        for (unsigned k = 0; k < rows[i].n; k++)
            at += sprintf(at, "%s", rows[i].times);
        for (unsigned k = 0; k < rows[i].then_n; k++)
            at += sprintf(at, "%s", rows[i].then);
        sprintf(at, "%s", rows[i].end);
        cofi_demangle(names, name);
    }
    return NULL;
}

static void bounds_its_stack(void **state)
{
    (void)state;
    pthread_attr_t small;
    pthread_t thread;
    struct cofi_demangler *full = open_names(COFI_DEMANGLE_FULL);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 512 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, ask_for_deep_names, full), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
    assert_string_equal(cofi_demangle(full, "_Z3foov"), "foo()");
    cofi_demangler_close(full);
}

/* A file of such names is given up, but for what is known already. */
static void gives_up(void **state)
{
    (void)state;
    char name[4096], good[] = "_Z3barv";
    struct cofi_demangler *full = open_names(COFI_DEMANGLE_FULL);
    assert_string_equal(cofi_demangle(full, "_Z3foov"), "foo()");
    for (unsigned i = 0; i < 64; i++) {
        char head[16];
        snprintf(head, sizeof head, "_Z3f%02u", i);
        double_up(name, head, 40);
        assert_ptr_equal(cofi_demangle(full, name), name);
    }
    assert_ptr_equal(cofi_demangle(full, good), good);
    assert_string_equal(cofi_demangle(full, "_Z3foov"), "foo()");
    cofi_demangler_close(full);
}

/* As long as may be, and longer. */
static void bounds_its_room(void **state)
{
    (void)state;
    static char name[3 * 4096];
    struct cofi_demangler *simple = open_names(COFI_DEMANGLE_SIMPLE);
    for (unsigned length = 4000; length < 4200; length++) {
        int n = snprintf(name, sizeof name, "_Z%u", length);
        memset(name + n, 'a', length);
        strcpy(name + n + length, "v");
        const char *shown = cofi_demangle(simple, name);
        assert_true(shown == name || (strlen(shown) == length && !strncmp(shown, name + n, length)));
        assert_true(shown != name || length > 4000);
    }
    cofi_demangler_close(simple);
}

static void *ask(void *names)
{
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < 100; i++) {
            char name[32], simple[32];
            snprintf(name, sizeof name, "_Z3f%02dv", i);
            snprintf(simple, sizeof simple, "f%02d", i);
            if (strcmp(cofi_demangle(names, name), simple) != 0)
                return names;
        }
    return NULL;
}

static void is_thread_safe(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct cofi_demangler *simple = open_names(COFI_DEMANGLE_SIMPLE);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, simple), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    cofi_demangler_close(simple);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_names),      cmocka_unit_test(leaves_others), cmocka_unit_test(bounds_its_time),
        cmocka_unit_test(bounds_its_stack), cmocka_unit_test(gives_up),      cmocka_unit_test(bounds_its_room),
        cmocka_unit_test(is_thread_safe),
    };
#ifdef __SANITIZE_THREAD__ /* it needs more */
    cmocka_set_skip_filter("bounds_its_stack");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * A process's code as the step host sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/namespaces.h"
#include "host/step/space.h"

static uint64_t told[8]; /* pages of code */
static size_t told_n;

static void on_code(void *opaque, struct step_space *space, uint64_t addr, const uint8_t *bytes, size_t len, size_t ahead, const char *label)
{
    (void)opaque, (void)space, (void)bytes, (void)ahead, (void)label;
    if (len == STEP_PAGE && told_n < sizeof told / sizeof told[0])
        told[told_n++] = addr;
}

static void on_mapping(void *opaque, struct step_space *space, const struct step_mapping *mapping)
{
    (void)opaque, (void)space, (void)mapping;
}

static void *map(uint64_t at, size_t bytes, int flags)
{
    return mmap((void *)at, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* A mapping that has grown, as a heap does, is a new one: all that was known of its code is told again, and the instruction that goes on in
 * what is new is decoded from that. */
static void an_instruction_goes_on_in_what_its_mapping_grew_by(void **state)
{
    (void)state;
    struct cofi__namespaces namespaces = {0};
    const struct step_news news = {.code = on_code, .mapping = on_mapping, .namespaces = &namespaces};
    uint8_t *all = map(0, 2 * STEP_PAGE, 0);
    const uint64_t first = (uintptr_t)all, second = first + STEP_PAGE;
    assert_ptr_not_equal(all, MAP_FAILED);
    assert_int_equal(munmap(all + STEP_PAGE, STEP_PAGE), 0);
    memset(all, 0x90, STEP_PAGE);
    struct step_space *space = cofi__step_space_new();
    assert_non_null(space);
    assert_int_equal(cofi__step_space_code(space, getpid(), first, 64, false, &news)->insn.length, 1);
    assert_ptr_equal(map(second, STEP_PAGE, MAP_FIXED), (void *)second);
    memcpy(all + STEP_PAGE - 2, "\x48\xb8\1\2\3\4\5\6\7\x8", 10); /* mov rax, imm64 */
    told_n = 0;
    assert_int_equal(cofi__step_space_code(space, getpid(), second - 2, 64, true, &news)->insn.length, 10);
    size_t n = told_n;
    assert_int_equal(cofi__step_space_code(space, getpid(), second - 2, 64, false, &news)->insn.length, 10);
    assert_int_equal(told_n, n); /* it is known */
    assert_int_equal(told[n - 1], first);
    cofi__step_space_drop(space);
    cofi__namespaces_free(&namespaces);
    munmap(all, 2 * STEP_PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_instruction_goes_on_in_what_its_mapping_grew_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

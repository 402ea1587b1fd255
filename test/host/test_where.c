/* SPDX-License-Identifier: MIT
 * Where processes have a filter's file, from sideband. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>

#include "host/where.h"

enum { SHELL = 100, BASE = 0x400000 };

static void note(struct cofi__where *where, struct cofi_sideband sb) { assert_true(cofi__where_note(where, &sb) >= 0); }

static void map(struct cofi__where *where, int32_t pid, uint64_t at)
{
    note(where, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = pid, .tid = pid, .prot = PROT_EXEC, .name = "/bin/it", .addr = at, .len = 0x1000});
}

static void fork_at(struct cofi__where *where, int32_t pid, int32_t ppid, uint64_t ns)
{
    note(where, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = pid, .tid = pid, .ppid = ppid, .ptid = ppid, .time_ns = ns});
}

static void exec_at(struct cofi__where *where, int32_t pid, uint64_t ns)
{
    note(where, (struct cofi_sideband){.kind = COFI_SB_COMM, .exec = true, .pid = pid, .tid = pid, .time_ns = ns, .name = "it"});
}

/* Where it has the file; 0: nowhere. */
static uint64_t base_of(const struct cofi__where *where, int32_t pid, uint64_t ns)
{
    size_t i = cofi__where_find(where, pid, ns);
    return i < where->n && where->processes[i].known[0] ? where->processes[i].base[0] : 0;
}

/* A shell that has a command at a time, each of which executes something; ids come again. (To look for each among all that ever were would take
 * minutes.) */
static void a_shell_with_many_children(void **state)
{
    (void)state;
    enum { CHILDREN = 400000, IDS = 250000, FIRST = 1000 };
    char path[] = "/bin/it";
    struct cofi_filters filters = {1, {{.action = COFI_FILTER_RANGE, .size = 0x1000, .path = path}}};
    struct cofi__where where = {.filters = &filters};
    map(&where, SHELL, BASE);
    for (int32_t i = 0; i < CHILDREN; i++) {
        int32_t pid = FIRST + i % IDS;
        uint64_t ns = 10 + 3 * (uint64_t)i;
        fork_at(&where, pid, SHELL, ns);
        assert_int_equal(base_of(&where, pid, UINT64_MAX), BASE);
        exec_at(&where, pid, ns + 1);
        map(&where, pid, BASE + 0x1000 * (uint64_t)(i + 1));
        assert_int_equal(base_of(&where, SHELL, ns), BASE);
    }
    assert_int_equal(base_of(&where, FIRST, 9), 0);
    assert_int_equal(base_of(&where, FIRST, 10), BASE);
    assert_int_equal(base_of(&where, FIRST, 11), BASE + 0x1000);
    assert_int_equal(base_of(&where, FIRST, 9 + 3 * IDS), BASE + 0x1000);
    assert_int_equal(base_of(&where, FIRST, 11 + 3 * IDS), BASE + 0x1000 * (IDS + 1));
    assert_int_equal(base_of(&where, FIRST + IDS, UINT64_MAX), 0);
    cofi__where_fini(&where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shell_with_many_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * The table of executable memory: after changes it is what all mappings would give, though only those that changed are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/fast/rt/mappings.c"
#include "host/fast/rt/maps.c"

/* What they ask of the rest of the runtime. */
struct runtime rt;
static struct thread thread;
static unsigned calls, reads;
static uint64_t forgot_from, forgot_to;

long rt_syscall6(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    long r = syscall(nr, a, b, c, d, e, f);
    calls++;
    reads += nr == SYS_read;
    return r < 0 ? -errno : r;
}
void rt_die(const char *why, uint64_t value) { fail_msg("%s %lx", why, (unsigned long)value); abort(); }
void rt_lock(void) {}
void rt_unlock(void) {}
void *rt_alloc_kept(size_t n) { return calloc(1, n); }
size_t rt_kept_left(void) { return 0; }
int rt_probe(void *to, const void *from, size_t n)
{
    struct iovec in = {to, n}, out = {(void *)(uintptr_t)from, n};
    return process_vm_readv(getpid(), &in, 1, &out, 1, 0) == (ssize_t)n ? 0 : -1;
}
bool ours_at(uint64_t address) { (void)address; return false; }
uint64_t pages_same_until(uint64_t start, uint64_t end, bool *is) { (void)start, *is = false; return end; }
void note_put(struct thread *t, unsigned kind, const uint64_t v[4], const void *bytes, size_t n) { (void)t, (void)kind, (void)v, (void)bytes, (void)n; }
void collector_look(struct thread *t, uint32_t word) { (void)t, (void)word; }
uint8_t filter_of(const struct origin *o) { (void)o; return 0; }
void filter_maps_read(void) {}
static void forget(uint64_t start, uint64_t end) { forgot_from = start, forgot_to = end; }
void cache_invalidate(uint64_t start, uint64_t end) { forget(start, end); }
void watch_drop(uint64_t start, uint64_t end) { forget(start, end); }
void watch_forget(uint64_t start, uint64_t end) { forget(start, end); }

enum { PAGES = 64, CODE = PROT_READ | PROT_EXEC };
static uint64_t area;

static uint64_t at(unsigned page) { return area + page * (uint64_t)PAGE; }

/* The program maps pages without telling. */
static void map(unsigned page, unsigned n, int prot)
{
    assert_ptr_equal(mmap((void *)at(page), n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), (void *)at(page));
}

static void change(unsigned page, unsigned n, int prot)
{
    map(page, n, prot);
    maps_changed(at(page), at(page + n), CHANGE_MAPPING, 0);
    maps_stale(at(page), at(page + n), 0);
}

/* Nothing is stale, and in the area there is nothing but one page, the last. */
static int begin(void **state)
{
    (void)state;
    static struct cofi__fast_control control;
    rt.control = &control;
    if (!area)
        area = (uint64_t)mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map(0, PAGES, PROT_NONE);
    map(PAGES - 1, 1, CODE);
    rt.maps_stale = true;
    bool is = maps_find(&thread, at(PAGES - 1));
    calls = reads = 0;
    forgot_from = forgot_to = 0;
    return is ? 0 : -1;
}

/* Before Linux 6.11 all mappings are read. */
static void assert_asked(void)
{
    struct mapping m;
    int fd = mappings_open();
    bool tells = mapping_query(fd, 0, &m);
    close(fd);
    if (tells)
        assert_int_equal(reads, 0);
}

static void a_new_mapping_is_asked_for_alone(void **state)
{
    (void)state;
    change(8, 2, CODE);
    const struct region *r = maps_find(&thread, at(9));
    assert_non_null(r);
    assert_int_equal(r->start, at(8));
    assert_int_equal(r->end, at(10));
    assert_asked();
}

static void code_elsewhere_is_found_without_a_look_at_what_has_changed(void **state)
{
    (void)state;
    change(8, 2, CODE);
    assert_non_null(maps_find(&thread, at(PAGES - 1)));
    assert_int_equal(calls, 0);
}

static void an_instruction_that_ends_in_what_has_changed_can_be_read(void **state)
{
    (void)state;
    change(8, 1, CODE);
    assert_non_null(maps_find(&thread, at(8)));
    change(9, 1, CODE | PROT_WRITE);
    assert_non_null(maps_find(&thread, at(9) - 1));
    assert_int_equal(maps_readable(at(9) - 1), 15);
}

static void what_is_unmapped_is_known_no_more(void **state)
{
    (void)state;
    change(8, 4, CODE);
    assert_non_null(maps_find(&thread, at(8)));
    change(9, 1, PROT_NONE);
    assert_null(maps_find(&thread, at(9)));
    assert_non_null(maps_find(&thread, at(8)));
    assert_non_null(maps_find(&thread, at(11)));
}

/* The call of another thread has unmapped it, and that waits for the lock to say so. */
static void code_that_is_found_unmapped_is_forgotten(void **state)
{
    (void)state;
    change(8, 2, CODE);
    assert_non_null(maps_find(&thread, at(8)));
    map(8, 2, PROT_NONE);
    change(20, 1, CODE);
    rt.maps_stale = true;
    assert_non_null(maps_find(&thread, at(20)));
    assert_int_equal(forgot_from, at(8));
    assert_int_equal(forgot_to, at(10));
}

static void more_changes_than_are_kept_are_all_seen(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++)
        change(i, 1, i % 2 ? CODE : CODE | PROT_WRITE);
    for (unsigned i = 0; i < 40; i++)
        change(i, 1, i % 2 ? CODE | PROT_WRITE : CODE);
    for (unsigned i = 0; i < 40; i++) {
        const struct region *r = maps_find(&thread, at(i));
        assert_non_null(r);
        assert_int_equal(r->writable, i % 2);
    }
}

static unsigned pick(unsigned n)
{
    static uint32_t random = 1;
    random = random * 1664525 + 1013904223;
    return (random >> 16) % n;
}

/* 0: none, 1: code, 2: which can be written. */
static void view(uint8_t *pages)
{
    for (unsigned i = 1; i < rt.region_count; i++)
        assert_true(rt.regions[i - 1].end <= rt.regions[i].start);
    for (unsigned i = 0; i < PAGES; i++) {
        const struct region *r = lookup(at(i));
        pages[i] = !r ? 0 : r->writable ? 2 : 1;
    }
}

static void after_any_changes_the_table_is_as_if_all_were_read(void **state)
{
    (void)state;
    static const int rights[] = {PROT_NONE, PROT_READ, CODE, CODE, CODE | PROT_WRITE};
    uint8_t got[PAGES], want[PAGES];
    for (unsigned k = 0; k < 2000; k++) {
        for (unsigned n = 1 + pick(6); n; n--)
            change(pick(PAGES - 9), 1 + pick(8), rights[pick(5)]);
        maps_find(&thread, at(pick(PAGES)));
        int fd = mappings_open();
        read_stale(&thread, fd);
        close(fd);
        view(got);
        rt.maps_stale = true;
        maps_find(&thread, at(PAGES - 1));
        view(want);
        assert_memory_equal(got, want, PAGES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_mapping_is_asked_for_alone, begin),
        cmocka_unit_test_setup(code_elsewhere_is_found_without_a_look_at_what_has_changed, begin),
        cmocka_unit_test_setup(an_instruction_that_ends_in_what_has_changed_can_be_read, begin),
        cmocka_unit_test_setup(what_is_unmapped_is_known_no_more, begin),
        cmocka_unit_test_setup(code_that_is_found_unmapped_is_forgotten, begin),
        cmocka_unit_test_setup(more_changes_than_are_kept_are_all_seen, begin),
        cmocka_unit_test_setup(after_any_changes_the_table_is_as_if_all_were_read, begin),
    };
    return cmocka_run_group_tests_name("fast-maps", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Without memory for one allocation, whichever it is, functions say so, or do all that they do. */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include <cofi/analyze.h>
#include <cofi/demangle.h>
#include <cofi/flow.h>
#include <cofi/host.h>
#include <cofi/image.h>
#include <cofi/present.h>

#include "cli/jobs.h"
#include "host/step/maps.h"

#include "../trace/sample.h"

/* The linker leads the library's calls here (--wrap), not those of other libraries. */
static atomic_bool armed;
static atomic_long left; /* allocations until one fails */
static atomic_long held; /* by these, less those that were freed: means something where nothing else allocates */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *block);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *block);

static bool fails(void) { return atomic_load(&armed) && atomic_fetch_sub(&left, 1) == 0; }

static void *hold(void *block)
{
    if (block)
        atomic_fetch_add(&held, 1);
    return block;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : hold(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : hold(__real_calloc(n, size)); }
void *__wrap_realloc(void *old, size_t n)
{
    if (fails())
        return NULL;
    return old ? __real_realloc(old, n) : hold(__real_malloc(n));
}
void *__wrap_aligned_alloc(size_t alignment, size_t n) { return fails() ? NULL : hold(__real_aligned_alloc(alignment, n)); }
void __wrap_free(void *block)
{
    if (block)
        atomic_fetch_sub(&held, 1);
    __real_free(block);
}

static void fail_at(long n)
{
    atomic_store(&left, n);
    atomic_store(&armed, true);
}

/* Whether it came to that. */
static bool failed(void)
{
    atomic_store(&armed, false);
    return atomic_load(&left) < 0;
}

static void a_recording_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    const char *path = scratch_path("a.data");
    bool more = true;
    write_sample(path, 8);
    for (long i = 0; more; i++) {
        struct cofi_recording *recording;
        struct cofi_error error;
        fail_at(i);
        int status = cofi_recording_open(&recording, path, &error);
        more = failed();
        if (status < 0) {
            assert_int_equal(status, COFI_ERR_NOMEM);
            continue;
        }
        assert_null(cofi_recording_warning(recording, 0));
        assert_int_equal(cofi_recording_streams(recording), 1);
        assert_int_equal(cofi_recording_stream(recording, 0)->bytes, sizeof sample_trace);
        assert_non_null(cofi_recording_sideband(recording, 7));
        assert_string_equal(cofi_recording_comm(recording, 100, UINT64_MAX), "sample");
        cofi_recording_close(recording);
    }
}

enum { SAMPLE_CUT = 16 }; /* behind the PSB */

/* Write a thread's trace; the error of whichever call failed. */
static int write_trace(const char *path)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer = NULL;
    struct cofi_error error = {0};
    int status = cofi_writer_open(&writer, path, &info, &error);
    if (status >= 0)
        status = cofi_writer_trace(writer, 100, 100, sample_trace, SAMPLE_CUT, 1);
    if (status >= 0)
        status = cofi_writer_trace(writer, 100, 100, sample_trace + SAMPLE_CUT, sizeof sample_trace - SAMPLE_CUT, 1);
    int closed = cofi_writer_close(writer, &error);
    if (closed < 0)
        assert_int_equal(error.code, closed);
    if (writer && status < 0) /* a caller may look at the last call only */
        assert_int_equal(closed, status);
    return status < 0 ? status : closed;
}

static void a_recording_is_written_whole_or_out_of_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"b.data", "b.data.zst"};
    for (unsigned k = 0; k < 2; k++) {
        const char *path = scratch_path(names[k]);
        bool more = true;
        for (long i = 0; more; i++) {
            struct cofi_recording *recording;
            fail_at(i);
            int status = write_trace(path);
            more = failed();
            if (status < 0) {
                assert_int_equal(status, COFI_ERR_NOMEM);
                continue;
            }
            assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
            assert_int_equal(cofi_recording_stream(recording, 0)->bytes, sizeof sample_trace);
            cofi_recording_close(recording);
        }
    }
}

/* A thread's trace unit into a recording and raw bytes. Returns what closing does, whatever was said before. */
static int record_thread(const char *path, struct cofi_recorder_stats *stats)
{
    const struct cofi_recorder_options options = {.size = sizeof options, .gen = COFI_PT, .path = path,
                                                  .raw = scratch_path("raw"), .topa = "4K,8K"};
    const struct cofi_task task = {.pid = 100, .tid = 100};
    const struct cofi_context user = {.cpl = 3, .mode = 64, .cr0_pg = true, .vmcs = UINT64_MAX};
    const struct cofi_event clock = {.kind = COFI_EV_CLOCK, .tsc = 1000};
    struct cofi_recorder *recorder;
    struct cofi_error error = {0};
    int status = cofi_recorder_open(&recorder, &options, &error);
    if (status < 0)
        return status;
    const struct cofi_observer *o = cofi_recorder_observer(recorder);
    if (o->begin(o->opaque, &task, &user, &clock) >= 0)
        for (unsigned i = 0; i < 1000; i++) {
            const struct cofi_event jump = {.kind = COFI_EV_JMP_IND, .ip = 0x401000, .next = 0x401002, .target = 0x401000 + i * 16,
                                            .vector = COFI_NO_VECTOR};
            o->event(o->opaque, &task, &jump);
        }
    o->end(o->opaque, &task);
    status = cofi_recorder_close(recorder, stats, &error);
    if (status < 0)
        assert_true(error.code == status && error.text[0]);
    return status;
}

static void a_thread_is_recorded_whole_or_out_of_memory(void **state)
{
    (void)state;
    struct cofi_recorder_stats whole, stats;
    const char *path = scratch_path("c.data");
    bool more = true;
    assert_int_equal(record_thread(path, &whole), 0);
    assert_true(whole.bytes > 1000);
    for (long i = 0; more; i++) {
        struct cofi_recording *recording;
        fail_at(i);
        int status = record_thread(path, &stats);
        more = failed();
        if (status < 0) {
            assert_int_equal(status, COFI_ERR_NOMEM);
            continue;
        }
        assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
        assert_int_equal(cofi_recording_stream(recording, 0)->bytes, whole.bytes);
        cofi_recording_close(recording);
    }
}

static void a_demangler_that_does_not_open_keeps_nothing(void **state)
{
    (void)state;
    bool more = true;
    for (long i = 0; more; i++) {
        struct cofi_demangler *names = NULL;
        long before = atomic_load(&held);
        fail_at(i);
        int status = cofi_demangler_open(&names, COFI_DEMANGLE_SIMPLE);
        more = failed();
        assert_int_equal(status, more ? COFI_ERR_NOMEM : 0);
        cofi_demangler_close(names);
        assert_int_equal(atomic_load(&held), before);
    }
}

/* A function of this program, and the program as a view shows it. */
static uint64_t function_ip(void) { return (uint64_t)(uintptr_t)a_recording_is_read_whole_or_not_at_all; }

static int see_program(struct cofi_image **image, struct cofi_view **view)
{
    Dl_info here;
    assert_true(dladdr((void *)(uintptr_t)function_ip(), &here));
    int status = cofi_image_open(image);
    if (status >= 0)
        status = cofi_image_map_elf_at(*image, 0, "/proc/self/exe", (uint64_t)(uintptr_t)here.dli_fbase, NULL);
    return status < 0 ? status : cofi_view_open(view, *image);
}

/* Count the beginning of a function of this program, by its file. functions: how many the result has. */
static int cover(size_t *functions)
{
    const struct cofi_coverage_options options = {.size = sizeof options, .names = true};
    uint64_t ip = function_ip();
    const struct cofi_flow_insn insn = {.ip = ip, .length = 1, .mode = 64};
    const struct cofi_flow_block block = {.ip = ip, .end = ip + 1, .insns = &insn, .n = 1, .mode = 64}, *blocks = &block;
    struct cofi_image *image = NULL;
    struct cofi_view *view = NULL;
    struct cofi_coverage *coverage = NULL;
    size_t n = 0;
    int status = see_program(&image, &view);
    if (status >= 0)
        status = cofi_coverage_open(&coverage, &options);
    if (status >= 0)
        status = cofi_coverage_blocks(coverage, view, &blocks, 1);
    if (status >= 0)
        status = cofi_coverage_learn(coverage);
    if (status >= 0)
        status = cofi_coverage_finish(coverage);
    const struct cofi_coverage_module *modules = status >= 0 ? cofi_coverage_modules(coverage, &n) : NULL;
    *functions = n ? modules[0].functions_n : 0;
    cofi_coverage_close(coverage);
    cofi_view_close(view);
    cofi_image_close(image);
    return status;
}

/* A line of text of a function of this program; "": no memory. */
static int print_line(char *text, size_t size)
{
    uint64_t ip = function_ip();
    const struct cofi_flow_insn insn = {.ip = ip, .length = 1, .mode = 64};
    const struct cofi_flow_block block = {.ip = ip, .end = ip + 1, .insns = &insn, .n = 1, .mode = 64};
    struct cofi_image *image = NULL;
    struct cofi_view *view = NULL;
    struct cofi_lines *lines = NULL;
    size_t n = 0;
    int status = see_program(&image, &view);
    if (status >= 0)
        status = cofi_lines_open(&lines, COFI_LINES_TEXT, 1, true);
    const char *line = status >= 0 ? cofi_lines_block(lines, view, &block, &n, NULL) : NULL;
    snprintf(text, size, "%.*s", (int)n, line ? line : "");
    if (status >= 0 && !line)
        status = COFI_ERR_NOMEM;
    cofi_lines_close(lines);
    cofi_view_close(view);
    cofi_image_close(image);
    return status;
}

static void a_line_has_its_names_or_there_is_none(void **state)
{
    (void)state;
    char whole[512], text[512];
    bool more = true;
    assert_int_equal(print_line(whole, sizeof whole), 0);
    assert_non_null(strstr(whole, "a_recording_is_read_whole_or_not_at_all"));
    assert_non_null(strstr(whole, "test_memory.c:"));
    for (long i = 0; more; i++) {
        fail_at(i);
        int status = print_line(text, sizeof text);
        more = failed();
        if (status >= 0)
            assert_string_equal(text, whole);
        else
            assert_int_equal(status, COFI_ERR_NOMEM);
    }
}

static void coverage_has_all_functions_or_none(void **state)
{
    (void)state;
    size_t all, n;
    bool more = true;
    assert_int_equal(cover(&all), 0);
    assert_true(all > 100);
    for (long i = 0; more; i++) {
        fail_at(i);
        int status = cover(&n);
        more = failed();
        if (status >= 0)
            assert_int_equal(n, all);
        else
            assert_int_equal(status, COFI_ERR_NOMEM);
    }
}

/* Indirect jumps, each of which leads to the next; the trace: a TIP of two bytes of address for each but the last. */
enum { JUMPS = 15000, JUMPS_AT = 0x401000, JUMP_BYTES = 2 };

static struct cofi_image *jumps_image(void)
{
    static uint8_t code[JUMPS * JUMP_BYTES];
    struct cofi_image *image;
    for (size_t i = 0; i < JUMPS; i++)
        memcpy(code + i * JUMP_BYTES, "\xff\xe0", JUMP_BYTES); /* jmp rax */
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, JUMPS_AT, code, sizeof code, "code"), 0);
    return image;
}

static size_t jumps_trace(uint8_t *trace, unsigned jumps)
{
    static const uint8_t begin[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23, 0x99, 1,
                                    0x71, JUMPS_AT & 0xff, JUMPS_AT >> 8 & 0xff, JUMPS_AT >> 16, 0, 0, 0};
    memcpy(trace, begin, sizeof begin);
    uint8_t *p = trace + sizeof begin;
    for (unsigned i = 1; i < jumps; i++, p += 3) {
        unsigned to = JUMPS_AT + i * JUMP_BYTES;
        memcpy(p, (uint8_t[]){0x2d, (uint8_t)to, (uint8_t)(to >> 8)}, 3);
    }
    return (size_t)(p - trace);
}

/* 0 and how many blocks there were, or the error. */
static int jump(const struct cofi_image *image, const uint8_t *trace, size_t n, uint64_t *blocks)
{
    static const struct cofi_flow_block *shown[4096];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = shown, .blocks_max = 4096, .events = events, .events_max = 64};
    struct cofi_flow_config config;
    struct cofi_flow *flow = NULL;
    cofi_flow_config_init(&config, COFI_PT);
    config.image = image;
    config.bytes = trace;
    config.n = n;
    *blocks = 0;
    int status = cofi_flow_open(&flow, &config);
    while (!status && (status = cofi_flow_next(flow, &batch)) > 0) {
        *blocks += batch.blocks_n;
        status = 0;
    }
    cofi_flow_close(flow);
    return status;
}

/* A short one, and one long enough for memory in huge pages. */
static void a_trace_is_decoded_whole_or_out_of_memory(void **state)
{
    (void)state;
    static uint8_t trace[64 + 3 * JUMPS];
    struct cofi_image *image = jumps_image();
    for (unsigned jumps = 100; jumps <= JUMPS; jumps += JUMPS - 100) {
        size_t n = jumps_trace(trace, jumps);
        uint64_t blocks;
        bool more = true;
        long before = atomic_load(&held), fails = 0;
        for (long i = 0; more; i++) {
            fail_at(i);
            int status = jump(image, trace, n, &blocks);
            more = failed();
            fails += status < 0;
            if (status < 0)
                assert_int_equal(status, COFI_ERR_NOMEM);
            else
                assert_int_equal(blocks, jumps - 1); /* nothing tells where the last one leads */
            assert_int_equal(atomic_load(&held), before);
        }
        assert_true(fails >= 4); /* the flow, blocks, tables */
    }
    cofi_image_close(image);
}

/* What is not in a list has been unmapped. */
static void mappings_are_all_read_or_none(void **state)
{
    (void)state;
    struct step_mapping *maps;
    size_t all, n;
    bool more = true;
    assert_int_equal(cofi__step_maps_read(getpid(), &maps, &all), 0);
    assert_true(all > 2);
    cofi__step_maps_free(maps, all);
    for (long i = 0; more; i++) {
        fail_at(i);
        int status = cofi__step_maps_read(getpid(), &maps, &n);
        more = failed();
        if (status >= 0)
            assert_int_equal(n, all);
        cofi__step_maps_free(maps, n);
    }
}

/* The first job waits for the others, whose messages have to be held. */
static int say(void *opaque, size_t i)
{
    atomic_size_t *said = opaque;
    while (i == 0 && atomic_load(said) < 1)
        sched_yield();
    if (i)
        jobs_write(STDERR_FILENO, "gone\n", 5);
    atomic_fetch_add(said, 1);
    return 0;
}

static void a_message_that_cannot_be_held_is_said(void **state)
{
    (void)state;
    char text[8] = "";
    atomic_size_t said = 0;
    int file = memfd_create("err", 0), kept = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    fail_at(1); /* the first is that of jobs_run */
    int status = jobs_run(2, 2, say, &said);
    assert_true(failed());
    dup2(kept, STDERR_FILENO);
    assert_int_equal(status, 0);
    assert_int_equal(pread(file, text, sizeof text, 0), 5);
    assert_string_equal(text, "gone\n");
    close(file);
    close(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_is_read_whole_or_not_at_all),
        cmocka_unit_test(a_recording_is_written_whole_or_out_of_memory),
        cmocka_unit_test(a_thread_is_recorded_whole_or_out_of_memory),
        cmocka_unit_test(a_demangler_that_does_not_open_keeps_nothing),
        cmocka_unit_test(a_line_has_its_names_or_there_is_none),
        cmocka_unit_test(coverage_has_all_functions_or_none),
        cmocka_unit_test(a_trace_is_decoded_whole_or_out_of_memory),
        cmocka_unit_test(mappings_are_all_read_or_none),
        cmocka_unit_test(a_message_that_cannot_be_held_is_said),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

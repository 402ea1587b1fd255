/* SPDX-License-Identifier: MIT
 * What the library refuses before it does anything: generations, sizes and arguments that are none. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <cofi/cofi.h>

static const enum cofi_gen no_gens[] = {(enum cofi_gen)0, (enum cofi_gen)77};
static char never[64]; /* a file's name of our own */

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)opaque, (void)flow, (void)batch;
    return 0;
}

/* Each opener with a configuration that is right but for gen and size; closed at once. */
static int open_unit(size_t size, enum cofi_gen gen)
{
    struct cofi_unit *unit = NULL;
    struct cofi_unit_config config = {.size = size, .gen = gen};
    int status = cofi_unit_open(&unit, &config);
    cofi_unit_close(unit);
    return status;
}

static int open_recorder(size_t size, enum cofi_gen gen)
{
    struct cofi_recorder *recorder = NULL;
    struct cofi_recorder_options options = {.size = size, .gen = gen};
    int status = cofi_recorder_open(&recorder, &options, NULL);
    cofi_recorder_close(recorder, NULL, NULL);
    return status;
}

static int open_writer(size_t size, enum cofi_gen gen)
{
    struct cofi_writer *writer = NULL;
    struct cofi_recording_info info = {.size = size, .gen = gen};
    int status = cofi_writer_open(&writer, never, &info, NULL);
    if (!status)
        status = cofi_writer_trace(writer, 1, 1, NULL, 0, 0);
    cofi_writer_close(writer, NULL);
    assert_int_equal(access(never, F_OK), status ? -1 : 0);
    unlink(never);
    return status;
}

static int open_flow_of(size_t size, enum cofi_gen gen, bool parallel)
{
    struct cofi_image *image;
    struct cofi_flow *flow = NULL;
    struct cofi_flow_config config;
    cofi_flow_config_init(&config, gen);
    assert_int_equal(cofi_image_open(&image), 0);
    config.image = image;
    config.size = size;
    int status = parallel ? cofi_flow_parallel(&config, 2, 0, visit, NULL, NULL) : cofi_flow_open(&flow, &config);
    cofi_flow_close(flow);
    cofi_image_close(image);
    return status;
}

static int open_flow(size_t size, enum cofi_gen gen) { return open_flow_of(size, gen, false); }
static int open_parallel(size_t size, enum cofi_gen gen) { return open_flow_of(size, gen, true); }

static const struct {
    int (*open)(size_t size, enum cofi_gen gen);
    size_t size;
} openers[] = {{open_unit, sizeof(struct cofi_unit_config)}, {open_recorder, sizeof(struct cofi_recorder_options)},
               {open_writer, sizeof(struct cofi_recording_info)}, {open_flow, sizeof(struct cofi_flow_config)},
               {open_parallel, sizeof(struct cofi_flow_config)}};

static void a_generation_is_pt_or_rtit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
        assert_int_equal(openers[i].open(openers[i].size, COFI_PT), 0);
        assert_int_equal(openers[i].open(openers[i].size, COFI_RTIT), 0);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(openers[i].open(openers[i].size, no_gens[k]), COFI_ERR_RANGE);
    }
}

static void a_struct_without_its_size_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
        assert_int_equal(openers[i].open(0, COFI_PT), COFI_ERR_RANGE);
        assert_int_equal(openers[i].open(SIZE_MAX, COFI_PT), COFI_ERR_RANGE);
        assert_int_equal(openers[i].open(openers[i].size - 4, COFI_PT), COFI_ERR_RANGE); /* part of a member */
    }
    struct cofi_error error;
    struct cofi_recording *recording;
    char *argv[] = {"true", NULL};
    struct cofi_step_result step;
    struct cofi_fast_result fast;
    assert_int_equal(cofi_recording_open_with(&recording, "/nonexistent", &(struct cofi_recording_options){0}, &error), COFI_ERR_RANGE);
    assert_int_equal(cofi_step_run(&(struct cofi_step_options){.argv = argv}, &step, &error), COFI_ERR_RANGE);
    assert_int_equal(cofi_fast_record(&(struct cofi_fast_options){.argv = argv}, &fast, &error), COFI_ERR_RANGE);
    assert_false(step.started || fast.started);
}

/* One of a newer library: what it has more may be 0 only. */
static void a_longer_struct_is_taken_where_the_rest_is_zero(void **state)
{
    (void)state;
    struct { struct cofi_recorder_options known; uint64_t more; } newer = {.known = {.size = sizeof newer, .gen = COFI_PT}};
    struct cofi_recorder *recorder;
    assert_int_equal(cofi_recorder_open(&recorder, &newer.known, NULL), 0);
    cofi_recorder_close(recorder, NULL, NULL);
    newer.more = 1;
    assert_int_equal(cofi_recorder_open(&recorder, &newer.known, NULL), COFI_ERR_UNSUPPORTED);
}

static void hosts_need_a_command_or_a_process(void **state)
{
    (void)state;
    char *none[] = {NULL};
    struct cofi_error error = {0};
    struct cofi_step_result step;
    struct cofi_fast_result fast;
    for (unsigned i = 0; i < 2; i++) {
        struct cofi_step_options stepped = {.size = sizeof stepped, .argv = i ? none : NULL};
        struct cofi_fast_options recorded = {.size = sizeof recorded, .argv = i ? none : NULL};
        assert_int_equal(cofi_step_run(&stepped, &step, &error), COFI_ERR_RANGE);
        assert_int_equal(cofi_fast_record(&recorded, &fast, &error), COFI_ERR_RANGE);
        assert_int_equal(error.code, COFI_ERR_RANGE);
        assert_false(step.started || fast.started);
    }
}

static void *run_hosts(void *codes)
{
    int *code = codes;
    char *argv[] = {"true", NULL};
    struct cofi_step_options stepped = {.size = sizeof stepped, .argv = argv};
    struct cofi_fast_options recorded = {.size = sizeof recorded, .argv = argv, .no_trace = true};
    struct cofi_step_result step;
    struct cofi_fast_result fast;
    code[0] = cofi_step_run(&stepped, &step, NULL);
    code[1] = cofi_fast_record(&recorded, &fast, NULL);
    return NULL;
}

/* What threads of some programs have. */
static void hosts_need_little_stack(void **state)
{
    (void)state;
    pthread_attr_t small;
    pthread_t thread;
    int codes[2] = {1, 1};
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 64 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, run_hosts, codes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
    assert_int_equal(codes[0], 0);
    assert_true(!codes[1] || codes[1] == COFI_ERR_UNSUPPORTED); /* no fast host here */
}

/* A task that a host tells of begins, and ends if it is to. */
static void tell_task(struct cofi_recorder *recorder, uint32_t index, int32_t tid, bool ends)
{
    const struct cofi_observer *observer = cofi_recorder_observer(recorder);
    const struct cofi_task task = {.pid = 1, .tid = tid, .index = index};
    const struct cofi_context context = {.mode = 64, .cpl = 3, .vmcs = UINT64_MAX};
    const struct cofi_event clock = {.kind = COFI_EV_CLOCK, .vector = COFI_NO_VECTOR, .tsc = 1};
    assert_int_equal(observer->begin(observer->opaque, &task, &context, &clock), 0);
    if (ends)
        assert_int_equal(observer->end(observer->opaque, &task), 0);
}

static void a_recorder_says_what_it_could_not_write_at_its_end(void **state)
{
    (void)state;
    struct cofi_recorder *recorder;
    struct cofi_recorder_options options = {.size = sizeof options, .gen = COFI_PT, .raw = "/dev/full"};
    struct cofi_error error = {0};
    assert_int_equal(cofi_recorder_open(&recorder, &options, NULL), 0);
    tell_task(recorder, 0, 1, false);
    assert_int_equal(cofi_recorder_close(recorder, NULL, &error), COFI_ERR_IO);
    assert_string_equal(error.text, "/dev/full: No space left on device");
}

static void threads_of_one_number_have_raw_files_of_their_own(void **state)
{
    (void)state;
    struct cofi_recorder *recorder;
    struct cofi_recorder_options options = {.size = sizeof options, .gen = COFI_PT, .raw = never};
    static const char *const names[] = {"", ".7", ".7.2", ".8", ".7.3"};
    char path[sizeof never + 8];
    assert_int_equal(cofi_recorder_open(&recorder, &options, NULL), 0);
    for (uint32_t i = 0; i < 5; i++)
        tell_task(recorder, i, i == 3 ? 8 : 7, true);
    assert_int_equal(cofi_recorder_close(recorder, NULL, NULL), 0);
    for (unsigned i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", never, names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

static void arguments_out_of_range_are_refused(void **state)
{
    (void)state;
    struct cofi_unit *unit;
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .weak_lines = 17};
    assert_int_equal(cofi_unit_open(&unit, &config), COFI_ERR_RANGE);
    struct cofi_flow *flow;
    struct cofi_flow_config without;
    cofi_flow_config_init(&without, COFI_PT);
    assert_int_equal(cofi_flow_open(&flow, &without), COFI_ERR_RANGE);
    struct cofi_image *image;
    uint8_t id[21] = {0};
    assert_int_equal(cofi_image_open(&image), 0);
    without.image = image;
    without.time.mtc_freq = COFI_MTC_FREQ_MOST + 1;
    assert_int_equal(cofi_flow_open(&flow, &without), COFI_ERR_RANGE);
    without.time.mtc_freq = 0;
    without.offset = UINT64_MAX; /* bytes behind it would have none */
    assert_int_equal(cofi_flow_open(&flow, &without), COFI_ERR_RANGE);
    without.offset = 0;
    static const uint64_t breaks[] = {4096, 4096, 4095};
    without.breaks = breaks;
    without.breaks_n = 3;
    assert_int_equal(cofi_flow_open(&flow, &without), COFI_ERR_RANGE);
    without.breaks_n = 2;
    static const uint8_t tail[COFI_PACKET_MAX + 1];
    without.tail = tail;
    without.tail_n = sizeof tail;
    assert_int_equal(cofi_flow_open(&flow, &without), COFI_ERR_RANGE);
    without.tail_n--;
    assert_int_equal(cofi_flow_open(&flow, &without), 0);
    cofi_flow_close(flow);
    assert_int_equal(cofi_image_map_file(image, 0, 0, 4096, "/bin/true", 0, id, sizeof id), COFI_ERR_RANGE);
    cofi_image_close(image);
    struct cofi_insn insn;
    for (unsigned mode = 16; mode <= 64; mode *= 2)
        assert_int_equal(cofi_insn_decode(&insn, mode, 0, NULL, 0), COFI_ERR_TRUNCATED);
}

/* Sideband that could not be read back, each what it is by one member. */
static void records_that_are_none_are_not_written(void **state)
{
    (void)state;
    static const uint8_t code[4] = {0xc3};
    const struct cofi_sideband none[] = {
        {.kind = COFI_SB_TEXT_POKE + 1}, {.kind = COFI_SB_MMAP, .name = "/x", .build_id_size = 21},
        {.kind = COFI_SB_CODE, .addr = UINT64_MAX - 2, .bytes = code, .len = 4}, {.kind = COFI_SB_CODE, .addr = 4096, .len = 4},
        {.kind = COFI_SB_TEXT_POKE, .addr = UINT64_MAX, .bytes = code, .len = 4}};
    struct cofi_recording_info info = {.size = sizeof info, .gen = COFI_PT};
    struct cofi_writer *writer;
    struct cofi_recording *recording;
    assert_int_equal(cofi_writer_open(&writer, never, &info, NULL), 0);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(cofi_writer_sideband(writer, &none[i]), COFI_ERR_RANGE);
    assert_int_equal(cofi_writer_trace(writer, 1, 1, code, 1, 0), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    assert_int_equal(cofi_recording_open(&recording, never, NULL), 0);
    assert_null(cofi_recording_warning(recording, 0));
    cofi_recording_close(recording);
    unlink(never);
}

/* A flow over no bytes ends at once; what was seen of the code stays valid. */
static void an_empty_stream_ends_at_once(void **state)
{
    (void)state;
    struct cofi_image *image;
    struct cofi_flow *flow;
    struct cofi_flow_config config;
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 16};
    cofi_flow_config_init(&config, COFI_PT);
    assert_int_equal(cofi_image_open(&image), 0);
    config.image = image;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    uint32_t generation = cofi_flow_generation(flow);
    assert_int_equal(cofi_flow_next(flow, &batch), 0);
    assert_int_equal(cofi_flow_generation(flow), generation);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

static int zeros(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address;
    memset(bytes, 0, n);
    return 0;
}

static int refuse(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)bytes, (void)n;
    return COFI_ERR_FULL;
}

static void an_error_of_a_sink_has_a_text(void **state)
{
    (void)state;
    struct cofi_error error = {.text = ""};
    const struct cofi_memory memory = {.read = zeros};
    const struct cofi_sink full = {.write = refuse};
    assert_int_equal(cofi_output_read_range(&memory, 0, UINT64_C(64) << 32 | 0x7f, 0, &full, &error), COFI_ERR_FULL);
    assert_int_equal(error.code, COFI_ERR_FULL);
    assert_string_equal(error.text, "the sink refused bytes: the output is full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generation_is_pt_or_rtit),
        cmocka_unit_test(a_struct_without_its_size_is_refused),
        cmocka_unit_test(a_longer_struct_is_taken_where_the_rest_is_zero),
        cmocka_unit_test(hosts_need_a_command_or_a_process),
        cmocka_unit_test(hosts_need_little_stack),
        cmocka_unit_test(a_recorder_says_what_it_could_not_write_at_its_end),
        cmocka_unit_test(threads_of_one_number_have_raw_files_of_their_own),
        cmocka_unit_test(arguments_out_of_range_are_refused),
        cmocka_unit_test(records_that_are_none_are_not_written),
        cmocka_unit_test(an_empty_stream_ends_at_once),
        cmocka_unit_test(an_error_of_a_sink_has_a_text),
    };
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __x86_64__ /* they need more; there are none */
    cmocka_set_skip_filter("*_little_stack");
#endif
    snprintf(never, sizeof never, "/tmp/cofi-contract-%d", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Code that a JIT made: from its jitdump, and names from /tmp/perf-PID.map. */
#include "sample.h"

#include "base/bytes.h"

struct dump {
    uint8_t p[4096];
    size_t n;
};

static void add_le(struct dump *dump, uint64_t value, size_t n)
{
    put_le(dump->p + dump->n, value, n);
    dump->n += n;
}

static void begin_dump(struct dump *dump, uint64_t flags)
{
    dump->n = 0;
    add_le(dump, 0x4a695444, 4);
    add_le(dump, 1, 4);
    add_le(dump, 40, 4);
    add_le(dump, 62, 4);
    add_le(dump, 0, 4);
    add_le(dump, 100, 4);
    add_le(dump, 0, 8);
    add_le(dump, flags, 8);
}

static void add_load(struct dump *dump, uint64_t time, uint64_t addr, uint64_t index, const char *name)
{
    add_le(dump, 0, 4);
    add_le(dump, 56 + strlen(name) + 1 + sizeof sample_code, 4);
    add_le(dump, time, 8);
    add_le(dump, 100 | UINT64_C(100) << 32, 8);
    add_le(dump, addr, 8);
    add_le(dump, addr, 8);
    add_le(dump, sizeof sample_code, 8);
    add_le(dump, index, 8);
    memcpy(dump->p + dump->n, name, strlen(name) + 1);
    dump->n += strlen(name) + 1;
    memcpy(dump->p + dump->n, sample_code, sizeof sample_code);
    dump->n += sizeof sample_code;
}

static void add_move(struct dump *dump, uint64_t time, uint64_t to, uint64_t index)
{
    add_le(dump, 1, 4);
    add_le(dump, 64, 4);
    add_le(dump, time, 8);
    add_le(dump, 100 | UINT64_C(100) << 32, 8);
    add_le(dump, to, 8);
    add_le(dump, 0, 8);
    add_le(dump, to, 8);
    add_le(dump, sizeof sample_code, 8);
    add_le(dump, index, 8);
}

/* A recording of a process that maps a file at 7f0000000000 and code at 401000, if with_code. */
static const char *write_recording(int32_t pid, const char *mapped, bool with_code)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("jit.data");
    info.time.conv = (struct cofi_time_conv){.zero = 0x100, .mult = 1024, .shift = 10};
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = pid, .tid = pid, .time_ns = 1, .name = "jit"});
    if (mapped)
        put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = pid, .tid = pid, .time_ns = 2, .name = mapped,
                                           .addr = 0x7f0000000000, .len = 0x1000, .prot = 5, .flags = 2});
    if (with_code)
        put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = pid, .tid = pid, .time_ns = 3, .addr = 0x401000,
                                           .bytes = sample_code, .len = sizeof sample_code});
    assert_int_equal(cofi_writer_trace(writer, pid, pid, sample_trace, sizeof sample_trace, 0x1fff), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    return path;
}

static struct cofi_recording *recording;
static struct cofi_view *view;

static void open_below(const char *symfs, const char *path, int32_t pid, uint64_t time)
{
    struct cofi_recording_options options = {.size = sizeof options, .symfs = symfs};
    assert_int_equal(cofi_recording_open_with(&recording, path, &options, NULL), 0);
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, pid)), 0);
    cofi_view_advance(view, time, NULL, NULL);
}

static void open_at(const char *path, int32_t pid, uint64_t time) { open_below(NULL, path, pid, time); }

static void close_all(void)
{
    cofi_view_close(view);
    cofi_recording_close(recording);
}

static void assert_is(uint64_t addr, const char *name, uint64_t offset)
{
    struct cofi_symbol symbol;
    struct cofi_code code;
    assert_int_equal(cofi_view_find(view, addr, &code), 0);
    assert_int_equal(code.bytes[addr - code.start], sample_code[addr & 0xfff]);
    cofi_view_symbol(view, addr, false, &symbol);
    assert_string_equal(symbol.name, name);
    assert_int_equal(symbol.offset, offset);
}

static void a_jitdump_has_names_and_bytes_from_a_time_on(void **state)
{
    (void)state;
    struct dump dump;
    struct cofi_code code;
    begin_dump(&dump, 1); /* its times are TSC: perf's are 100h later here */
    add_load(&dump, 0x2000, 0x401000, 7, "fib");
    add_load(&dump, 0x3000, 0x402000, 8, "fac");
    add_move(&dump, 0x4000, 0x403000, 7);
    const char *path = scratch_path("jit-100.dump");
    write_whole(path, dump.p, dump.n);
    const char *data = write_recording(100, path, false);
    open_at(data, 100, 0x20ff);
    assert_int_equal(cofi_view_find(view, 0x401000, &code), COFI_ERR_NO_CODE);
    cofi_view_advance(view, 0x2100, NULL, NULL);
    assert_is(0x401000, "fib", 0);
    assert_is(0x401018, "fib", 0x18);
    assert_int_equal(cofi_view_find(view, 0x402000, &code), COFI_ERR_NO_CODE);
    cofi_view_advance(view, 0x4100, NULL, NULL);
    assert_is(0x402005, "fac", 5);
    assert_is(0x403005, "fib", 5);
    close_all();
}

/* Perf's clock is not the dump's: that was begun as it was mapped, which is at 2 in the recording. */
static void a_jitdumps_clock_is_set_by_its_mapping(void **state)
{
    (void)state;
    struct dump dump;
    struct cofi_code code;
    const char *path = scratch_path("jit-100.dump");
    for (uint64_t begun = 1; begun <= 0x70001; begun += 0x70000) {
        begin_dump(&dump, 0);
        put_le(dump.p + 24, begun, 8);
        add_load(&dump, begun - 2 + 0x2100, 0x401000, 7, "fib");
        add_load(&dump, begun - 2 + 0x3100, 0x402000, 8, "fac");
        write_whole(path, dump.p, dump.n);
        open_at(write_recording(100, path, false), 100, 0x20ff);
        assert_int_equal(cofi_view_find(view, 0x401000, &code), COFI_ERR_NO_CODE);
        cofi_view_advance(view, 0x2100, NULL, NULL);
        assert_is(0x401000, "fib", 0);
        assert_int_equal(cofi_view_find(view, 0x402000, &code), COFI_ERR_NO_CODE);
        cofi_view_advance(view, 0x3100, NULL, NULL);
        assert_is(0x402000, "fac", 0);
        close_all();
    }
}

/* Its heap grows: the kernel tells that as a mapping of the whole heap, which has another name by then. Other files hide code as ever. */
static void memory_given_to_a_jit_hides_none_of_its_code(void **state)
{
    (void)state;
    static const char *const memory[] = {"//anon", "[anon:v8]", "/memfd:doublemapper (deleted)", "/dev/zero", "/gone/libgone.so"};
    for (unsigned i = 0; i < ARRAY_LEN(memory); i++) {
        struct cofi_recording_info info = sample_info();
        struct cofi_writer *writer;
        struct cofi_code code;
        struct dump dump;
        const char *path = scratch_path("jit-100.dump"), *data = scratch_path("jit.data");
        begin_dump(&dump, 1);
        add_load(&dump, 0x2000, 0x401000, 7, "fib");
        add_load(&dump, 0x2000, 0x403000, 8, "fac");
        add_load(&dump, 0x4000, 0x402000, 9, "odd");
        write_whole(path, dump.p, dump.n);
        info.time.conv = (struct cofi_time_conv){.zero = 0x100, .mult = 1024, .shift = 10};
        assert_int_equal(cofi_writer_open(&writer, data, &info, NULL), 0);
        struct cofi_sideband map = {.kind = COFI_SB_MMAP, .pid = 100, .tid = 100, .prot = 5, .flags = 2, .time_ns = 2, .name = path,
                                    .addr = 0x7f0000000000, .len = 0x1000};
        put(writer, map);
        map.addr = 0x400000;
        map.len = 0x10000;
        map.time_ns = 0x3000;
        map.name = memory[i];
        put(writer, map);
        assert_int_equal(cofi_writer_close(writer, NULL), 0);
        open_at(data, 100, 0x2fff);
        assert_is(0x401005, "fib", 5);
        cofi_view_advance(view, 0x3000, NULL, NULL);
        if (memory[i][1] == 'g') {
            assert_int_equal(cofi_view_find(view, 0x401005, &code), COFI_ERR_NO_CODE);
        } else {
            assert_is(0x401005, "fib", 5);
            assert_is(0x403005, "fac", 5);
        }
        assert_int_equal(cofi_view_find(view, 0x402005, &code), COFI_ERR_NO_CODE);
        assert_non_null(strstr(cofi_view_why(view), memory[i]));
        cofi_view_advance(view, 0x4100, NULL, NULL);
        assert_is(0x402005, "odd", 5);
        close_all();
    }
}

/* (To look for what each moves from the first record on would take minutes.) */
static void a_jitdump_may_move_much_code(void **state)
{
    (void)state;
    enum { FUNCTIONS = 1 << 17, ONE = 56 + 2 + sizeof sample_code + 64, FROM = 0x10000000, TO = 0x20000000 };
    const char *path = scratch_path("jit-100.dump");
    struct dump dump;
    uint8_t *all = malloc(40 + (size_t)FUNCTIONS * ONE);
    assert_non_null(all);
    begin_dump(&dump, 1);
    memcpy(all, dump.p, 40);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        dump.n = 0;
        add_load(&dump, 0x2000 + i, FROM + 0x1000 * i, i, i & 1 ? "f" : "g");
        add_move(&dump, 0x2000 + i, TO + 0x1000 * i, i & 2 ? i : i - (i & 1));
        assert_int_equal(dump.n, ONE);
        memcpy(all + 40 + i * ONE, dump.p, ONE);
    }
    write_whole(path, all, 40 + (size_t)FUNCTIONS * ONE);
    free(all);
    open_at(write_recording(100, path, false), 100, 0x100000);
    assert_is(FROM + 0x1000 * (FUNCTIONS - 1), "f", 0);
    assert_is(TO + 0x1000 * (FUNCTIONS - 1), "f", 0);
    assert_is(TO + 0x1000 * (FUNCTIONS - 3), "g", 0);
    close_all();
}

static void code_that_can_lie_nowhere_hides_no_other(void **state)
{
    (void)state;
    struct dump dump;
    begin_dump(&dump, 1);
    add_load(&dump, 0x2000, UINT64_MAX - 3, 7, "fib");
    add_load(&dump, 0x3000, 0x402000, 8, "fac");
    const char *path = scratch_path("jit-100.dump");
    write_whole(path, dump.p, dump.n);
    open_at(write_recording(100, path, false), 100, 0x4100);
    assert_is(0x402000, "fac", 0);
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "lies nowhere"));
    assert_null(cofi_recording_warning(recording, 1));
    close_all();
}

static void a_jitdump_cut_anywhere_gives_what_precedes(void **state)
{
    (void)state;
    struct dump dump;
    begin_dump(&dump, 0);
    add_load(&dump, 0x2000, 0x401000, 7, "fib");
    size_t first = dump.n;
    add_move(&dump, 0x4000, 0x403000, 7);
    const char *path = scratch_path("jit-100.dump");
    const char *data = write_recording(100, path, false);
    for (size_t n = 0; n <= dump.n; n++) {
        write_whole(path, dump.p, n);
        open_at(data, 100, 0x5000);
        assert_int_equal(cofi_recording_warning(recording, 0) != NULL, n != 40 && n != first && n != dump.n);
        if (n >= first)
            assert_is(0x401000, "fib", 0);
        close_all();
    }
    unlink(path);
    open_at(data, 100, 0x5000);
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "jit-100.dump"));
    close_all();
}

/* What its parent had not written yet a child wrote, too: the second time it does not begin with a record. */
static void a_jitdump_is_read_on_behind_bytes_that_are_no_record(void **state)
{
    (void)state;
    struct dump dump;
    for (size_t part = 1; part < 60; part++) {
        begin_dump(&dump, 0);
        add_load(&dump, 0x2000, 0x401000, 7, "fib");
        memcpy(dump.p + dump.n, dump.p + dump.n - part, part);
        dump.n += part;
        add_load(&dump, 0x2000, 0x402000, 8, "fac");
        add_move(&dump, 0x3000, 0x403000, 8);
        const char *path = scratch_path("jit-100.dump");
        write_whole(path, dump.p, dump.n);
        open_at(write_recording(100, path, false), 100, 0x5000);
        assert_non_null(cofi_recording_warning(recording, 0));
        assert_null(cofi_recording_warning(recording, 1));
        assert_is(0x401000, "fib", 0);
        assert_is(0x402000, "fac", 0);
        assert_is(0x403000, "fac", 0);
        close_all();
    }
}

static void perf_map_files_name_code_that_no_file_names(void **state)
{
    (void)state;
    enum { PID = 4194000 }; /* above what systems use */
    char map[64];
    static const char text[] = "401000 10 first\nno line\n401010 10 second one\n401010 8 second, again\n401018 zz bad\n";
    snprintf(map, sizeof map, "/tmp/perf-%d.map", PID);
    unlink(map);
    write_whole(map, text, sizeof text - 1);
    open_at(write_recording(PID, NULL, true), PID, 0x5000);
    unlink(map);
    assert_is(0x401005, "first", 5);
    assert_is(0x401012, "second, again", 2);
    assert_is(0x401019, "second one", 9);
    close_all();
}

/* What is in this machine's /tmp is of other processes. */
static void below_symfs_are_a_jitdump_and_a_perf_map_too(void **state)
{
    (void)state;
    enum { PID = 4194001 };
    struct dump dump;
    char map[64], folder[192], path[256];
    begin_dump(&dump, 0);
    add_load(&dump, 0x2000, 0x402000, 7, "dumped");
    snprintf(folder, sizeof folder, "%s/root", scratch);
    snprintf(path, sizeof path, "mkdir -p %s/tmp", folder);
    assert_int_equal(system(path), 0);
    snprintf(map, sizeof map, "/tmp/perf-%d.map", PID);
    snprintf(path, sizeof path, "%s/tmp/jit-%d.dump", folder, PID);
    write_whole(path, dump.p, dump.n);
    write_whole(map, "401010 8 other\n", 15);
    struct cofi_symbol symbol;
    open_below(folder, write_recording(PID, "/tmp/jit-4194001.dump", false), PID, 0x5000);
    assert_null(cofi_recording_warning(recording, 0));
    assert_is(0x402002, "dumped", 2);
    close_all();
    const char *data = write_recording(PID, NULL, true);
    open_below(folder, data, PID, 0x5000);
    cofi_view_symbol(view, 0x401012, false, &symbol);
    assert_null(symbol.name);
    close_all();
    snprintf(path, sizeof path, "%s%s", folder, map);
    write_whole(path, "401010 8 named\n", 15);
    open_below(folder, data, PID, 0x5000);
    assert_is(0x401012, "named", 2);
    close_all();
    unlink(map);
}

static void put_code(struct cofi_writer *writer, int32_t pid, uint64_t time, uint64_t addr, const uint8_t *bytes)
{
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = pid, .tid = pid, .time_ns = time, .addr = addr, .bytes = bytes,
                                       .len = sizeof sample_code});
}

static void put_exec(struct cofi_writer *writer, int32_t pid, uint64_t time)
{
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = pid, .tid = pid, .time_ns = time, .name = "jit", .exec = true});
}

static void put_fork(struct cofi_writer *writer, int32_t parent, int32_t pid, uint64_t time)
{
    put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = pid, .tid = pid, .ppid = parent, .ptid = parent, .time_ns = time});
}

static void put_jitdump(struct cofi_writer *writer, uint64_t time, const char *dump)
{
    put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = 100, .tid = 100, .time_ns = time, .name = dump, .addr = 0x7f0000000000,
                                       .len = 0x1000, .prot = 5, .flags = 2});
}

/* A recording of 100, which executes something and maps a jitdump. */
static struct cofi_writer *begin_code(bool monotonic, const char *dump)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    info.time.conv = (struct cofi_time_conv){.mult = 1024, .shift = 10};
    info.time.monotonic = monotonic;
    assert_int_equal(cofi_writer_open(&writer, scratch_path("jit.data"), &info, NULL), 0);
    put_exec(writer, 100, 0x100);
    put_jitdump(writer, 0x101, dump);
    return writer;
}

static const char *end_code(struct cofi_writer *writer)
{
    assert_int_equal(cofi_writer_trace(writer, 100, 100, sample_trace, sizeof sample_trace, 0x1fff), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    return scratch_path("jit.data");
}

/* One that tells code as it ran, at 401000 twice. */
static const char *write_code(bool monotonic, const uint8_t *other, const char *dump)
{
    struct cofi_writer *writer = begin_code(monotonic, dump);
    put_code(writer, 100, 0x2000, 0x401000, sample_code);
    put_code(writer, 100, 0x3000, 0x402000, sample_code);
    put_code(writer, 100, 0x4000, 0x403000, sample_code);
    put_code(writer, 100, 0x6000, 0x401000, other);
    return end_code(writer);
}

static void assert_called(uint64_t addr, const char *name)
{
    struct cofi_symbol symbol;
    cofi_view_symbol(view, addr, false, &symbol);
    if (!name) {
        assert_null(symbol.name);
        return;
    }
    assert_non_null(symbol.name);
    assert_string_equal(symbol.name, name);
    assert_int_equal(symbol.offset, addr & 0xfff);
}

/* The jitdump's bytes are as a JIT wrote them down, the recording's as they ran. */
static void assert_bytes(uint64_t addr, const uint8_t *bytes)
{
    struct cofi_code code;
    assert_int_equal(cofi_view_find(view, addr, &code), 0);
    assert_memory_equal(code.bytes + (addr - code.start), bytes, sizeof sample_code);
}

static void a_jitdump_names_code_that_the_recording_tells(void **state)
{
    (void)state;
    struct dump dump;
    uint8_t other[sizeof sample_code] = {0x90};
    begin_dump(&dump, 0);
    add_load(&dump, 0x1fff, 0x401000, 1, "first");
    add_load(&dump, 0x3000 + 9000000, 0x402000, 2, "a little late");
    add_load(&dump, 0x4000 + 11000000, 0x403000, 3, "too late");
    add_load(&dump, 0x5000, 0x401000, 4, "second");
    const char *path = scratch_path("jit-100.dump");
    write_whole(path, dump.p, dump.n);
    const char *data = write_code(true, other, path);
    open_at(data, 100, 0x5fff); /* "second" has not run yet */
    assert_true(cofi_recording_info(recording)->time.monotonic);
    assert_called(0x401002, "first");
    assert_called(0x402002, "a little late");
    assert_called(0x403002, NULL);
    assert_bytes(0x401000, sample_code);
    cofi_view_advance(view, 0x6000, NULL, NULL);
    assert_called(0x401002, "second");
    assert_bytes(0x401000, other);
    close_all();
    open_at(write_code(false, other, path), 100, 0x5fff); /* whose times say nothing of the jitdump's */
    assert_called(0x401002, "second");
    assert_called(0x403002, "too late");
    close_all();
}

static const char *write_dump(const struct dump *dump)
{
    const char *path = scratch_path("jit-100.dump");
    write_whole(path, dump->p, dump->n);
    return path;
}

static void names_given_before_an_exec_are_not_those_of_what_runs_behind_it(void **state)
{
    (void)state;
    struct dump dump;
    begin_dump(&dump, 0);
    add_load(&dump, 1, 0x403000, 0, "before it was recorded");
    add_load(&dump, 0x1fff, 0x401000, 1, "before");
    add_load(&dump, 0x5800, 0x402000, 2, "behind");
    const char *path = write_dump(&dump);
    struct cofi_writer *writer = begin_code(true, path);
    put_code(writer, 100, 0x2000, 0x401000, sample_code);
    put_code(writer, 100, 0x3000, 0x402000, sample_code);
    put_code(writer, 100, 0x3000, 0x403000, sample_code);
    put_exec(writer, 100, 0x5000);
    put_jitdump(writer, 0x5001, path);
    put_code(writer, 100, 0x6000, 0x401000, sample_code);
    put_code(writer, 100, 0x6000, 0x402000, sample_code);
    open_at(end_code(writer), 100, 0x4fff);
    assert_called(0x401002, "before");
    assert_called(0x402002, NULL); /* though it is named a little later, elsewhere a JIT that tells late */
    assert_called(0x403002, "before it was recorded");
    cofi_view_advance(view, 0x6000, NULL, NULL);
    assert_called(0x401002, NULL);
    assert_called(0x402002, "behind");
    close_all();
}

/* 100 forks 101, and that 102: what 100 names later is not theirs, nor is what 102 puts there named by 100. At last 101 executes something
 * else, and makes another 100. */
static const char *write_forks(const uint8_t *other, const char *dump)
{
    struct cofi_writer *writer = begin_code(true, dump);
    put_code(writer, 100, 0x2000, 0x401000, sample_code);
    put_fork(writer, 100, 101, 0x3000);
    put_fork(writer, 101, 102, 0x3100);
    put_code(writer, 100, 0x4000, 0x401000, other);
    put_exec(writer, 101, 0x5000);
    put_code(writer, 101, 0x5100, 0x401000, sample_code);
    put_code(writer, 102, 0x6000, 0x402000, sample_code);
    put_code(writer, 102, 0x6100, 0x401000, other);
    put_fork(writer, 101, 100, 0x7000);
    return end_code(writer);
}

static void assert_called_at(const char *data, int32_t pid, uint64_t time, uint64_t addr, const char *name)
{
    open_at(data, pid, time);
    assert_called(addr, name);
    close_all();
}

static void a_forked_childs_code_has_the_names_that_its_parent_gave(void **state)
{
    (void)state;
    struct dump dump;
    uint8_t other[sizeof sample_code] = {0x90};
    begin_dump(&dump, 0);
    add_load(&dump, 0x1fff, 0x401000, 1, "first");
    add_load(&dump, 0x3800, 0x401000, 2, "second");
    const char *data = write_forks(other, write_dump(&dump));
    assert_called_at(data, 101, 0x4fff, 0x401002, "first");
    assert_called_at(data, 101, 0x5100, 0x401002, NULL);
    assert_called_at(data, 102, 0x6000, 0x401002, "first");
    assert_called_at(data, 102, 0x6100, 0x401002, NULL);
    assert_called_at(data, 100, 0x6fff, 0x401002, "second");
    assert_called_at(data, 100, 0x7000, 0x401002, NULL);
}

static void a_forked_childs_code_has_the_names_of_its_parents_perf_map(void **state)
{
    (void)state;
    enum { PID = 4194002 };
    char map[64];
    struct cofi_writer *writer = begin_code(true, scratch_path("none"));
    put_exec(writer, PID, 0x1000);
    put_code(writer, PID, 0x2000, 0x401000, sample_code);
    put_fork(writer, PID, PID + 1, 0x3000);
    snprintf(map, sizeof map, "/tmp/perf-%d.map", PID);
    write_whole(map, "401000 20 named\n", 16);
    open_at(end_code(writer), PID + 1, 0x4000);
    unlink(map);
    assert_called(0x401002, "named");
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jitdump_has_names_and_bytes_from_a_time_on),
        cmocka_unit_test(a_jitdumps_clock_is_set_by_its_mapping),
        cmocka_unit_test(memory_given_to_a_jit_hides_none_of_its_code),
        cmocka_unit_test(a_jitdump_may_move_much_code),
        cmocka_unit_test(code_that_can_lie_nowhere_hides_no_other),
        cmocka_unit_test(a_jitdump_cut_anywhere_gives_what_precedes),
        cmocka_unit_test(a_jitdump_is_read_on_behind_bytes_that_are_no_record),
        cmocka_unit_test(perf_map_files_name_code_that_no_file_names),
        cmocka_unit_test(below_symfs_are_a_jitdump_and_a_perf_map_too),
        cmocka_unit_test(a_jitdump_names_code_that_the_recording_tells),
        cmocka_unit_test(names_given_before_an_exec_are_not_those_of_what_runs_behind_it),
        cmocka_unit_test(a_forked_childs_code_has_the_names_that_its_parent_gave),
        cmocka_unit_test(a_forked_childs_code_has_the_names_of_its_parents_perf_map),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

/* SPDX-License-Identifier: MIT
 * The files that decoding a recording needs beside it. */
#include "sample.h"

#include <fcntl.h>
#include <sys/mman.h>

static struct cofi_writer *writer;
static char listed[4096]; /* a line each: "PATH", "PATH: REASON" */
static unsigned calls;

/* A program that has a build id, and no libraries. */
static int make_program(void **state)
{
    assert_int_equal(make_scratch(state), 0);
    setenv("HOME", scratch, 1);
    run_command("printf '.globl _start\\n_start: ret\\n' | as -o %s/x.o - && ld --build-id -o %s/program %s/x.o", scratch, scratch, scratch);
    run_command("cp %s/x.o %s/object; cp %s/program %s/other", scratch, scratch, scratch, scratch);
    return 0;
}

static void begin(void)
{
    struct cofi_recording_info info = sample_info();
    assert_int_equal(cofi_writer_open(&writer, scratch_path("f.data"), &info, NULL), 0);
    put(writer, (struct cofi_sideband){SAMPLE_SB(COMM, 1), .name = "x"});
}

static void map(const char *name, uint32_t prot)
{
    put(writer, (struct cofi_sideband){SAMPLE_SB(MMAP, 2), .name = name, .addr = 0x7f0000000000, .len = 0x1000, .prot = prot});
}

static void map_code(const char *name) { map(name, PROT_READ | PROT_EXEC); }

static void finish(void)
{
    assert_int_equal(cofi_writer_trace(writer, 100, 100, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
}

/* The descriptor is that of the file found, at its start. */
static int note(void *opaque, const struct cofi_recording_file *file)
{
    struct stat st, open;
    const char *end = opaque;
    size_t at = strlen(listed), skip = !strncmp(file->path, scratch, strlen(scratch)) ? strlen(scratch) + 1 : 0;
    snprintf(listed + at, sizeof listed - at, "%s%s%s\n", file->path + skip, file->why ? ": " : "", file->why ? file->why : "");
    assert_true(!file->found == !!file->why && (file->fd < 0) == !!file->why);
    if (file->found) {
        assert_int_equal(stat(file->found, &st) | fstat(file->fd, &open), 0);
        assert_true(st.st_ino == open.st_ino && st.st_dev == open.st_dev);
        assert_int_equal(lseek(file->fd, 0, SEEK_CUR), 0);
    }
    calls++;
    return end && !strcmp(file->path, end) ? 7 : 0;
}

static int list(const char *symfs, const char *end)
{
    struct cofi_recording *recording;
    struct cofi_recording_options options = {.size = sizeof options, .symfs = symfs};
    listed[0] = 0;
    calls = 0;
    assert_int_equal(cofi_recording_open_with(&recording, scratch_path("f.data"), &options, NULL), 0);
    int status = cofi_recording_files(recording, note, (void *)(uintptr_t)end);
    cofi_recording_close(recording);
    return status;
}

static void files_with_code_are_listed_once_as_they_were_mapped(void **state)
{
    (void)state;
    begin();
    map_code(scratch_path("program"));
    map(scratch_path("x.s"), PROT_READ);
    map_code(scratch_path("other"));
    map_code(scratch_path("program"));
    map_code("[vdso]");
    map_code("//anon");
    map_code("/memfd:jit (deleted)");
    map_code("/tmp/gone (deleted)");
    put(writer, (struct cofi_sideband){SAMPLE_SB(MMAP, 3), .name = scratch_path("object"), .len = 0x1000, .prot = 5, .kernel = true});
    finish();
    assert_int_equal(list(NULL, NULL), 0);
    assert_string_equal(listed, "program\nother\n");
}

static void who_takes_files_may_end_it(void **state)
{
    (void)state;
    begin();
    map_code(scratch_path("program"));
    map_code(scratch_path("other"));
    finish();
    assert_int_equal(list(NULL, scratch_path("program")), 7);
    assert_int_equal(calls, 1);
}

/* A pipe would be waited for. */
static void what_is_no_program_has_a_reason(void **state)
{
    (void)state;
    static const char *const names[] = {"object", "text", "folder", "pipe", "missing", "device"};
    char expected[1024] = "";
    run_command("cd %s && echo x >text && mkdir folder && mkfifo pipe && ln -s /dev/zero device", scratch);
    begin();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        map_code(scratch_path(names[i]));
        const char *path = i > 1 ? scratch_path(names[i]) : "";
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s: %s%s%s\n", names[i], path, i > 1 ? ": " : "",
                 i == 4 ? "no such file" : i > 1 ? "not a regular file" : "not an ELF file with code");
    }
    finish();
    assert_int_equal(list(NULL, NULL), 0);
    assert_string_equal(listed, expected);
}

/* Of the same path, once with the build id that it has and once with another one; below symfs only. */
static void a_file_is_found_where_symfs_says_by_its_build_id(void **state)
{
    (void)state;
    char root[256];
    snprintf(root, sizeof root, "%s/root", scratch);
    run_command("mkdir -p %s%s && mv %s/program %s%s/program", root, scratch, scratch, root, scratch);
    begin();
    put(writer, (struct cofi_sideband){SAMPLE_SB(MMAP, 2), .name = scratch_path("other"), .len = 0x1000, .prot = 5,
                                       .build_id = {1, 2, 3}, .build_id_size = 20});
    map_code(scratch_path("program"));
    map_code(scratch_path("other"));
    finish();
    assert_int_equal(list(root, NULL), 0);
    assert_non_null(strstr(listed, "no such file\nprogram\nother: "));
    assert_int_equal(list(NULL, NULL), 0);
    assert_non_null(strstr(listed, "the file changed since\nprogram: "));
    assert_non_null(strstr(listed, "no such file\nother\n"));
}

static void a_jitdump_is_needed_too(void **state)
{
    (void)state;
    uint8_t dump[40] = {'D', 'T', 'i', 'J', 1, 0, 0, 0, 40};
    begin();
    map_code(scratch_path("jit-1.dump"));
    map_code(scratch_path("jit-2.dump"));
    finish();
    write_whole(scratch_path("jit-1.dump"), dump, sizeof dump);
    write_whole(scratch_path("jit-2.dump"), dump + 1, sizeof dump - 1);
    assert_int_equal(list(NULL, NULL), 0);
    assert_string_equal(listed, "jit-1.dump\njit-2.dump: not there, or no jitdump\n");
    run_command("mkdir -p %s/below%s && mv %s/jit-1.dump %s/below%s", scratch, scratch, scratch, scratch, scratch);
    assert_int_equal(list(scratch_path("below"), NULL), 0);
    assert_non_null(strstr(listed, "jit-1.dump\n"));
}

static void so_are_names_of_a_processs_code(void **state)
{
    (void)state;
    begin();
    finish();
    run_command("mkdir -p %s/maps/tmp && echo '401000 10 f' >%s/maps/tmp/perf-100.map", scratch, scratch);
    assert_int_equal(list(scratch_path("maps"), NULL), 0);
    assert_string_equal(listed, "/tmp/perf-100.map\n");
    run_command("rm %s/maps/tmp/perf-100.map && mkdir %s/maps/tmp/perf-100.map", scratch, scratch);
    assert_int_equal(list(scratch_path("maps"), NULL), 0);
    assert_string_equal(listed, "");
}

/* Found beside the program, its place is that of its build id. */
static void a_separate_debug_file_follows_its_program(void **state)
{
    (void)state;
    run_command("cd %s && printf 'int work(void) { return 1; }\\n' >w.c && gcc -g -shared -Wl,--build-id=0xabcdef0123456789 -o w.so w.c && "
        "objcopy --only-keep-debug w.so w.debug && strip w.so && objcopy --add-gnu-debuglink=w.debug w.so", scratch);
    begin();
    map_code(scratch_path("w.so"));
    finish();
    assert_int_equal(list(NULL, NULL), 0);
    assert_string_equal(listed, "w.so\n/usr/lib/debug/.build-id/ab/cdef0123456789.debug\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_with_code_are_listed_once_as_they_were_mapped),
        cmocka_unit_test(who_takes_files_may_end_it),
        cmocka_unit_test(what_is_no_program_has_a_reason),
        cmocka_unit_test(a_file_is_found_where_symfs_says_by_its_build_id),
        cmocka_unit_test(a_jitdump_is_needed_too),
        cmocka_unit_test(so_are_names_of_a_processs_code),
        cmocka_unit_test(a_separate_debug_file_follows_its_program),
    };
    return cmocka_run_group_tests(tests, make_program, remove_scratch);
}

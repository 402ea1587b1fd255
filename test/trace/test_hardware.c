/* SPDX-License-Identifier: MIT
 * What perf record writes on a processor with Intel PT: every kind of record, kernel and user, guests, old kernels' switches,
 * compressed samples. Each recording is built here, and where perf is at hand it must read it, too. */
#include "perfdata.h"

#include <elf.h>
#include <fcntl.h>
#include <zstd.h>

#define KTEXT UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0000000)
enum { USER_TEXT = 0x401000, SHELL = 50, OTHER = 60, VCPU_THREAD = 71, HYPERVISOR = 70 };

/* syscall; nop; jmp *rax */
#define USER_CODE "0f05 90 ffe0"
/* at +10: nop nop sysretq; at +20: vmresume, nop, jmp *rax */
#define KERNEL_CODE "00000000000000000000000000000000 9090480f07 0000000000000000000000 0f01c3 90 ffe0"
/* a guest's, at the same addresses: at +10: nop, jmp *rax; at +18: nop nop nop */
#define GUEST_CODE "00000000000000000000000000000000 90ffe0 0000000000 909090"
/* From 401000 into the kernel and back. */
#define SYSTEM_CALL(tsc) "P19 00" tsc "0000000000 02031800 0223 9901 71001040000000 cd10000081ffffffff 6d021040000000 01"
#define SYSTEM_CALL_FLOW "401000 ffffffff81000010 ffffffff81000011 ffffffff81000012 401002 401003 [disabled] "
/* The kernel enters a guest (NR, CR3 1000), which jumps and is left; back in the kernel. */
#define GUEST_ENTRY "P19 0020 0000000000 02031800 0223 9901 d120000081ffffffff 0243010100000000 cd10000081ffffffff" \
    "2d1800 3d1900 0243000200000000 2d2300 01"
static const uint8_t kernel_id[20] = {0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

static void make_directory(const char *path) { assert_true(mkdir(path, 0700) == 0 || access(path, F_OK) == 0); }

/* An ELF with one loadable part. */
static void write_code(const char *path, uint64_t vaddr, const char *hex)
{
    static struct bytes file;
    Elf64_Ehdr ehdr = {.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = 64, .e_ehsize = 64,
                       .e_phentsize = 56, .e_phnum = 1};
    Elf64_Phdr phdr = {.p_type = PT_LOAD, .p_flags = 5, .p_offset = 0x1000, .p_vaddr = vaddr, .p_filesz = 0x1000, .p_memsz = 0x1000};
    memset(&file, 0, sizeof file);
    memcpy(ehdr.e_ident, "\177ELF\2\1\1", 7);
    add(&file, &ehdr, sizeof ehdr);
    add(&file, &phdr, sizeof phdr);
    file.n = 0x1000;
    add_hex(&file, hex);
    file.n = 0x2000;
    write_whole(path, file.p, file.n);
}

static void write_text(const char *path, const char *text) { write_whole(path, text, strlen(text)); }

/* Threads 50 and 60 on processors 0 and 1, the kernel, a module. */
static void add_start_of(struct bytes *out, uint64_t have_switch, const uint8_t *build_id)
{
    const char *program = scratch_path("program");
    write_code(program, USER_TEXT, USER_CODE);
    auxtrace_info(out, have_switch, 1);
    WORDS(out, PERF_ID_INDEX, 0, NULL, 2, ID_BASE + EV_PT, 0, 0, UINT64_MAX, ID_BASE + EV_SWITCH, 0, 0, UINT64_MAX);
    struct mapping kernel = {KTEXT, 0x1000000, KTEXT, "[kernel.kallsyms]_text", build_id};
    if (build_id)
        mmap2(out, &(struct who){-1, 0, UINT32_MAX, 0, EV_TRACK}, PERF_MISC_KERNEL, -1, &kernel);
    else
        mmap1(out, PERF_MISC_KERNEL, -1, &kernel);
    mmap1(out, PERF_MISC_KERNEL, -1, &(struct mapping){MODULE, 0x1000, 0, "/lib/modules/6.1.0-test/kernel/x-y.ko", NULL});
    for (int32_t pid = SHELL; pid <= OTHER; pid += OTHER - SHELL) {
        struct who who = {pid, pid, 0, 0, SYNTHESIZED};
        comm(out, &who, pid == SHELL ? "shell" : "other", false);
        mmap2(out, &who, PERF_MISC_USER, pid, &(struct mapping){USER_TEXT, 0x1000, 0x1000, program, NULL});
    }
}

static void add_start(struct bytes *out, uint64_t have_switch) { add_start_of(out, have_switch, NULL); }

static void add_switch(struct bytes *out, uint32_t cpu, int32_t pid, int32_t tid, uint64_t time)
{
    struct who who = {pid, tid, cpu, time, EV_SWITCH};
    WORDS(out, PERF_SWITCH_CPU_WIDE, 0, &who, 0);
}

/* All other records that perf 5.x and 6.x write; none may disturb. */
static void add_every_other_record(struct bytes *out)
{
    struct who who = {SHELL, SHELL, 0, 0x180, EV_TRACK};
    size_t at;
    WORDS(out, 73 /* THREAD_MAP */, 0, NULL, 1, SHELL, 0x6c6c656873, 0);
    WORDS(out, 74 /* CPU_MAP */, 0, NULL, 0x0001000000020000);
    WORDS(out, 75 /* STAT_CONFIG */, 0, NULL, 1, 0, 1);
    WORDS(out, 78 /* EVENT_UPDATE */, 0, NULL, 1, ID_BASE + EV_TRACK, 0x796d6d7564);
    WORDS(out, 79 /* TIME_CONV */, 0, NULL, 10, 1024, 0, 0, 0, 1);
    WORDS(out, 82 /* FINISHED_INIT */, 0, NULL, 0);
    out->n -= 8;
    put_le(out->p + out->n - 2, 8, 2);
    at = begin(out, PERF_KSYMBOL, 0);
    add_le(out, MODULE + 0x100000, 8);
    add_le(out, 0x40, 4);
    add_le(out, 1, 4);
    add(out, "bpf_prog_x", 11);
    end(out, at, &who);
    WORDS(out, 18 /* BPF_EVENT */, 0, &who, 1 | UINT64_C(5) << 32, 0x1122334455667788);
    WORDS(out, 16 /* NAMESPACES */, 0, &who, SHELL | (uint64_t)SHELL << 32, 1, 3, 0xeffffffc);
    at = begin(out, 19 /* CGROUP */, 0);
    add_le(out, 1, 8);
    add(out, "/", 2);
    end(out, at, &who);
    at = begin(out, PERF_TEXT_POKE, PERF_MISC_KERNEL);
    add_le(out, KTEXT + 0x800, 8);
    add_le(out, 1, 2);
    add_le(out, 1, 2);
    add(out, "\x90\xcc", 2);
    end(out, at, &who);
    WORDS(out, PERF_FORK, 0, &who, SHELL | (uint64_t)SHELL << 32, 51 | (uint64_t)SHELL << 32, 0x180);
    WORDS(out, PERF_EXIT, 0, &who, SHELL | (uint64_t)SHELL << 32, 51 | (uint64_t)SHELL << 32, 0x190);
    WORDS(out, PERF_LOST_SAMPLES, 0, &who, 0);
    WORDS(out, PERF_AUX_OUTPUT_HW_ID, 0, (&(struct who){SHELL, SHELL, 0, 0x181, EV_PT}), 0);
    WORDS(out, PERF_ITRACE_START, 0, (&(struct who){SHELL, SHELL, 0, 0x182, EV_PT}), SHELL | (uint64_t)SHELL << 32);
    WORDS(out, PERF_AUX, 0, (&(struct who){SHELL, SHELL, 0, 0x4000, EV_PT}), 0, 0x30, 0);
    WORDS(out, PERF_FINISHED_ROUND, 0, NULL, 0);
    out->n -= 8;
    put_le(out->p + out->n - 2, 8, 2);
}

static void add_all(struct bytes *out)
{
    out->n = 0;
    add_start(out, 3);
    add_every_other_record(out);
    add_switch(out, 0, SHELL, SHELL, 0x1000);
    add_switch(out, 1, OTHER, OTHER, 0x1000);
    auxtrace(out, 0, -1, 0, 0x1000, SYSTEM_CALL("20"));
    auxtrace(out, 1, -1, 1, 0x1000, SYSTEM_CALL("20"));
}

static struct cofi_recording *open_quietly(const char *path, const struct cofi_recording_options *options)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    if (cofi_recording_open_with(&recording, path, options, &error) < 0)
        fail_msg("%s", error.text);
    for (size_t i = 0; cofi_recording_warning(recording, i); i++)
        fail_msg("%s", cofi_recording_warning(recording, i));
    return recording;
}

static void assert_system_calls(const char *path, const struct cofi_recording_options *options)
{
    struct cofi_recording *recording = open_quietly(path, options);
    assert_int_equal(cofi_recording_streams(recording), 2);
    assert_int_equal(cofi_recording_info(recording)->model, 94);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(flow_text(recording, i, NULL, NULL), SYSTEM_CALL_FLOW);
        assert_int_equal(cofi_recording_thread(recording, i, 0x2000, NULL), i ? OTHER : SHELL);
    }
    cofi_recording_close(recording);
}

/* perf reads it, every record of it. */
static void assert_perf_reads(const char *path)
{
    char command[512];
    snprintf(command, sizeof command, "! perf --version >/dev/null 2>&1 || perf script -D -i %s >%s/perf.out 2>&1 && "
             "! grep -iE 'unknown|bad event|failed' %s/perf.out | grep -v 'max cpus' | sed 's/^/# perf: /' | grep .", path,
             scratch, scratch); /* it wants /sys for that */
    if (system(command))
        fail_msg("perf does not read %s; perf script -D tells", path);
}

static void make_kcore(const char *directory)
{
    char path[200];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/kcore", directory);
    write_code(path, KTEXT, KERNEL_CODE);
    snprintf(path, sizeof path, "%s/kallsyms", directory);
    write_text(path, "ffffffff81000000 T _text\nffffffff81000010 T do_nothing\nffffffff81000020 t enter\tx_y [x_y]\n");
    snprintf(path, sizeof path, "%s/modules", directory);
    write_text(path, "other 16384 0 - Live 0xffffffffc0001000\nx_y 16384 0 - Live 0xffffffffc0000000\n");
}

static void every_record_of_a_system_wide_recording_in_a_file_and_from_a_pipe(void **state)
{
    (void)state;
    static struct bytes out;
    add_all(&out);
    make_directory(scratch_path("wide"));
    make_kcore(scratch_path("wide/kcore_dir"));
    const char *path = scratch_path("wide/data");
    write_file(path, &out);
    assert_perf_reads(path);
    assert_system_calls(scratch_path("wide"), NULL);
    write_pipe(path, &out);
    assert_system_calls(scratch_path("wide"), NULL);
}

/* Linux 4.19 with isolated page tables: system calls come to a page of their processor's, which shows one of the kernel's text. */
static void a_kernel_is_entered_by_a_page_of_the_processors(void **state)
{
    (void)state;
    static struct bytes out;
    const struct mapping entry = {UINT64_C(0xfffffe0000006000), 0x1000, KTEXT + 0x10, "__entry_SYSCALL_64_trampoline", NULL};
    out.n = 0;
    add_start(&out, 3);
    mmap1(&out, PERF_MISC_KERNEL, -1, &entry);
    add_switch(&out, 0, SHELL, SHELL, 0x1000);
    auxtrace(&out, 0, -1, 0, 0x1000, "P19 00 20 0000000000 02031800 0223 9901 71001040000000 cd00600000 00feffff 6d021040000000 01");
    write_file(scratch_path("wide/data"), &out);
    struct cofi_recording *recording = open_quietly(scratch_path("wide"), NULL);
    assert_string_equal(flow_text(recording, 0, NULL, NULL), "401000 fffffe0000006000 fffffe0000006001 fffffe0000006002 401002 401003 [disabled] ");
    cofi_recording_close(recording);
}

/* What perf report calls the code of a kcore: kallsyms beside it. */
static void a_kcore_has_the_names_beside_it(void **state)
{
    (void)state;
    struct cofi_recording *recording = open_quietly(scratch_path("wide"), NULL);
    struct cofi_view *view;
    struct cofi_symbol symbol;
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, SHELL)), 0);
    cofi_view_symbol(view, KTEXT + 0x12, false, &symbol);
    assert_string_equal(symbol.name, "do_nothing");
    assert_int_equal(symbol.offset, 2);
    cofi_view_close(view);
    cofi_recording_close(recording);
}

/* Why there is no code at an address; "": there is. */
static const char *why(struct cofi_recording *recording, uint64_t addr)
{
    static char text[500];
    struct cofi_view *view;
    struct cofi_code code;
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, SHELL)), 0);
    cofi_view_advance(view, 0x4000, NULL, NULL);
    snprintf(text, sizeof text, "%s", cofi_view_find(view, addr, &code) < 0 ? cofi_view_why(view) : "");
    cofi_view_close(view);
    return text;
}

/* `perf record` without --kcore, decoded where it was recorded: below --symfs as if that were /. */
static void the_running_kernel_is_used_if_it_is_the_recorded_one(void **state)
{
    (void)state;
    static struct bytes out, notes;
    char program[400], root[200], path[200];
    snprintf(root, sizeof root, "%s/root", scratch);
    snprintf(path, sizeof path, "%s/live.data", scratch);
    struct cofi_recording_options options = {.size = sizeof options, .symfs = root};
    out.n = 0;
    add_start_of(&out, 3, kernel_id);
    add_switch(&out, 0, SHELL, SHELL, 0x1000);
    auxtrace(&out, 0, -1, 0, 0x1000, SYSTEM_CALL("20"));
    write_file(path, &out);
    make_directory(options.symfs);
    make_directory(scratch_path("root/sys"));
    make_directory(scratch_path("root/sys/kernel"));
    make_kcore(scratch_path("root/proc"));
    snprintf(program, sizeof program, "mkdir -p %s%s && cp %s/program %s%s/", options.symfs, scratch, scratch, options.symfs, scratch);
    assert_int_equal(system(program), 0);
    notes.n = 0;
    add_hex(&notes, "06000000 01000000 00000000 4c696e757800 0000 00000000" "04000000 14000000 03000000 474e5500");
    add(&notes, kernel_id, 20);
    write_whole(scratch_path("root/sys/kernel/notes"), notes.p, notes.n);
    struct cofi_recording *recording = open_quietly(path, &options);
    assert_string_equal(flow_text(recording, 0, NULL, NULL), SYSTEM_CALL_FLOW);
    assert_string_equal(why(recording, MODULE + 0x10), "nothing is mapped at 0xffffffffc0000010 at this time"); /* as the kcore */
    cofi_recording_close(recording);
    /* The module was loaded again elsewhere. */
    write_text(scratch_path("root/proc/modules"), "x_y 16384 0 - Live 0xffffffffc0001000\n");
    recording = open_quietly(path, &options);
    assert_non_null(strstr(why(recording, MODULE + 0x10), "no such file"));
    cofi_recording_close(recording);
    /* Booted again: the kernel is elsewhere. */
    write_text(scratch_path("root/proc/kallsyms"), "ffffffff91000000 T _text\n");
    recording = open_quietly(path, &options);
    assert_non_null(strstr(why(recording, KTEXT + 0x10), "no kcore, vmlinux or vmlinuz of its build id"));
    cofi_recording_close(recording);
    /* Another kernel at the same place. */
    make_kcore(scratch_path("root/proc"));
    notes.p[notes.n - 1] ^= 1;
    write_whole(scratch_path("root/sys/kernel/notes"), notes.p, notes.n);
    recording = open_quietly(path, &options);
    assert_non_null(strstr(why(recording, KTEXT + 0x10), "no kcore, vmlinux or vmlinuz of its build id"));
    cofi_recording_close(recording);
    /* Unless it is told. */
    options.kcore = scratch_path("root/proc/kcore");
    recording = open_quietly(path, &options);
    assert_string_equal(flow_text(recording, 0, NULL, NULL), SYSTEM_CALL_FLOW);
    cofi_recording_close(recording);
    /* What perf buildid-cache --kcore kept. */
    setenv("HOME", scratch, 1);
    snprintf(program, sizeof program, "mkdir -p '%s/.debug/[kernel.kcore]/abcd0102030405060708090a0b0c0d0e0f101112'", scratch);
    assert_int_equal(system(program), 0);
    make_kcore(scratch_path(".debug/[kernel.kcore]/abcd0102030405060708090a0b0c0d0e0f101112/2026"));
    options.kcore = NULL;
    recording = open_quietly(path, &options);
    assert_string_equal(flow_text(recording, 0, NULL, NULL), SYSTEM_CALL_FLOW);
    cofi_recording_close(recording);
}

/* BPF programs' code is in no kcore that perf keeps, but in the header. */
static void bpf_programs_of_the_header_are_code_of_the_kernel(void **state)
{
    (void)state;
    static struct bytes out;
    struct cofi_view *view;
    struct cofi_code code;
    struct cofi_symbol symbol;
    bpf_at = MODULE + 0x200000;
    add_all(&out);
    write_file(scratch_path("bpf.data"), &out);
    assert_perf_reads(scratch_path("bpf.data"));
    struct cofi_recording *recording = open_quietly(scratch_path("bpf.data"), NULL);
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, SHELL)), 0);
    assert_int_equal(cofi_view_find(view, bpf_at + 1, &code), 0);
    assert_int_equal(code.bytes[bpf_at + 1 - code.start], 0xc3);
    assert_int_equal(code.end, bpf_at + 2);
    assert_int_equal(cofi_view_find(view, bpf_at + 0x102, &code), 0);
    assert_int_equal(code.bytes[bpf_at + 0x102 - code.start], 0xc3);
    cofi_view_symbol(view, bpf_at + 0x101, false, &symbol);
    assert_string_equal(symbol.name, "bpf_prog_abcd000000000000_count");
    cofi_view_close(view);
    cofi_recording_close(recording);
    /* Cut anywhere in it: no crash. */
    size_t n;
    uint8_t *bytes = read_whole(scratch_path("bpf.data"), &n);
    for (size_t size = n; size > n - 700; size--) {
        write_whole(scratch_path("cut.data"), bytes, size);
        if (cofi_recording_open(&recording, scratch_path("cut.data"), NULL) == 0)
            cofi_recording_close(recording);
    }
    free(bytes);
    bpf_at = 0;
}

/* A row of perf's table of build ids: the kernel's, which begins with two bytes of its own. */
static void add_kernel_row(struct bytes *out, uint8_t first)
{
    size_t at = begin(out, PERF_HEADER_BUILD_ID, PERF_MISC_KERNEL);
    add_le(out, UINT32_MAX, 4);
    add_le(out, first | first << 8, 2);
    add(out, kernel_id + 2, 18);
    add_le(out, 0, 4);
    add(out, "[kernel.kallsyms]", 18);
    end(out, at, NULL);
}

/* The table names the kernel without the symbol that its mapping has; of two rows the first counts. */
static void a_kernels_build_id_in_the_header_finds_its_vmlinux(void **state)
{
    (void)state;
    static struct bytes out;
    char command[300];
    setenv("HOME", scratch, 1);
    add_all(&out);
    add_kernel_row(&out, 0xee);
    add_kernel_row(&out, 0x11);
    add_kernel_row(&out, 0xff);
    write_file(scratch_path("vm.data"), &out);
    /* 0xeeee…: the cached file's name; a plain ELF without symbols and build id: told apart by what is said */
    snprintf(command, sizeof command, "mkdir -p %s/.debug/.build-id/ee/ee0102030405060708090a0b0c0d0e0f101112", scratch);
    assert_int_equal(system(command), 0);
    struct cofi_recording_options options = {.size = sizeof options, .kcore = scratch_path("none")};
    struct cofi_recording *recording = open_quietly(scratch_path("vm.data"), &options);
    const struct cofi_sideband *sb;
    bool found = false;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->kind == COFI_SB_MMAP && sb->kernel && sb->addr == KTEXT)
            found = sb->build_id_size == 20 && sb->build_id[0] == 0xee;
    assert_true(found);
    cofi_recording_close(recording);
}

/* ---- who ran, by sched:sched_switch ---- */

static void add_sched_switch(struct bytes *out, uint32_t cpu, int32_t from, int32_t to, uint64_t time, size_t next_pid)
{
    uint8_t raw[68] = {0};
    size_t at = begin(out, PERF_SAMPLE, PERF_MISC_KERNEL);
    put_le(raw + next_pid, (uint32_t)to, 4);
    add_le(out, ID_BASE + EV_TRACEPOINT, 8);
    add_le(out, KTEXT, 8);
    add_le(out, (uint32_t)from | (uint64_t)(uint32_t)from << 32, 8);
    add_le(out, time, 8);
    add_le(out, cpu, 8);
    add_le(out, 1, 8);
    add_le(out, sizeof raw, 4);
    add(out, raw, sizeof raw);
    end(out, at, NULL);
}

static void add_description(struct bytes *out, size_t next_pid)
{
    char text[400];
    snprintf(text, sizeof text, "name: sched_switch\nID: %d\nformat:\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
             "\tfield:pid_t next_pid;\toffset:%zu;\tsize:4;\tsigned:1;\n", SCHED_SWITCH, next_pid);
    size_t at = begin(out, PERF_HEADER_TRACING_DATA, 0), n = (strlen(text) + 7) & ~(size_t)7;
    add_le(out, n, 4);
    end(out, at, NULL);
    put_le(out->p + at + 6, 12, 2);
    out->n = at + 12;
    add(out, text, strlen(text));
    while (out->n < at + 12 + n)
        add_le(out, 0, 1);
}

/* The names of the events, for a recording without descriptions of them. */
static void add_event_names(struct bytes *out)
{
    static const char names[][24] = {"intel_pt//", "sched:sched_switch"};
    static const unsigned events[] = {EV_PT, EV_TRACEPOINT};
    size_t at = begin(out, PERF_HEADER_FEATURE, 0);
    add_le(out, 12 /* EVENT_DESC */, 8);
    add_le(out, 2, 4);
    add_le(out, EVENT_ATTR_BYTES, 4);
    for (size_t i = 0; i < 2; i++) {
        add_event(out, events[i]);
        add_le(out, 1, 4);
        add_le(out, sizeof names[i], 4);
        add(out, names[i], sizeof names[i]);
        add_le(out, ID_BASE + events[i], 8);
    }
    end(out, at, NULL);
}

static void samples_of_sched_switch_tell_who_ran(void **state)
{
    (void)state;
    static struct bytes out;
    static const struct { size_t next_pid; bool described; } cases[] = {{56, true}, {60, true} /* kernels with one more field */, {56, false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t next_pid = cases[i].next_pid;
        out.n = 0;
        if (cases[i].described)
            add_description(&out, next_pid);
        else
            add_event_names(&out);
        add_start(&out, 1);
        add_sched_switch(&out, 0, 0, SHELL, 0x1000, next_pid);
        add_sched_switch(&out, 0, SHELL, OTHER, 0x3000, next_pid);
        auxtrace(&out, 0, -1, 0, 0x1000, SYSTEM_CALL("20") SYSTEM_CALL("40"));
        write_pipe(scratch_path("old.data"), &out);
        struct cofi_recording_options options = {.size = sizeof options, .kcore = scratch_path("wide/kcore_dir/kcore")};
        struct cofi_recording *recording = open_quietly(scratch_path("old.data"), &options);
        int32_t pid;
        assert_int_equal(cofi_recording_thread(recording, 0, 0x2000, &pid), SHELL);
        assert_int_equal(pid, SHELL);
        assert_int_equal(cofi_recording_thread(recording, 0, 0x3000, &pid), OTHER);
        assert_int_equal(pid, OTHER);
        assert_string_equal(flow_text(recording, 0, NULL, NULL), SYSTEM_CALL_FLOW SYSTEM_CALL_FLOW);
        cofi_recording_close(recording);
    }
}

/* perf record COMMAND, and -p: each processor's buffer has the number of the command, whoever of it runs there. */
static void a_commands_children_are_told_from_it_by_switches(void **state)
{
    (void)state;
    static struct bytes out;
    static const struct { bool switches; int32_t tid, before, between, behind; } cases[] = {
        {true, -1, SHELL, SHELL, OTHER}, {false, SHELL, SHELL, SHELL, SHELL}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        out.n = 0;
        add_start(&out, cases[i].switches ? 2 : 0);
        WORDS(&out, PERF_ITRACE_START, 0, (&(struct who){SHELL, SHELL, 0, 0x1000, EV_PT}), SHELL | (uint64_t)SHELL << 32);
        if (cases[i].switches) {
            words(&out, PERF_SWITCH, PERF_MISC_SWITCH_OUT, &(struct who){SHELL, SHELL, 0, 0x2fff, EV_SWITCH}, NULL, 0);
            words(&out, PERF_SWITCH, 0, &(struct who){OTHER, OTHER, 0, 0x3000, EV_SWITCH}, NULL, 0);
        }
        auxtrace(&out, 0, SHELL, 0, 0x1000, SYSTEM_CALL("20") SYSTEM_CALL("40"));
        write_file(scratch_path("command.data"), &out);
        struct cofi_recording_options options = {.size = sizeof options, .kcore = scratch_path("wide/kcore_dir/kcore")};
        struct cofi_recording *recording = open_quietly(scratch_path("command.data"), &options);
        assert_int_equal(cofi_recording_stream(recording, 0)->tid, cases[i].tid);
        assert_int_equal(cofi_recording_stream(recording, 0)->cpu, 0);
        assert_int_equal(cofi_recording_thread(recording, 0, 0, NULL), cases[i].before);
        assert_int_equal(cofi_recording_thread(recording, 0, 0x2000, NULL), cases[i].between);
        assert_int_equal(cofi_recording_thread(recording, 0, 0x4000, NULL), cases[i].behind);
        assert_string_equal(flow_text(recording, 0, NULL, NULL), SYSTEM_CALL_FLOW SYSTEM_CALL_FLOW);
        cofi_recording_close(recording);
    }
}

/* The first switch of a processor is away from whom nothing else names. */
static void who_ran_before_the_first_switch_is_told_by_it(void **state)
{
    (void)state;
    static struct bytes out;
    out.n = 0;
    add_start(&out, 3);
    WORDS(&out, PERF_SWITCH_CPU_WIDE, PERF_MISC_SWITCH_OUT, (&(struct who){SHELL, SHELL, 0, 0x3000, EV_SWITCH}),
          OTHER | (uint64_t)OTHER << 32);
    auxtrace(&out, 0, -1, 0, 0x1000, SYSTEM_CALL("20") SYSTEM_CALL("40"));
    write_file(scratch_path("first.data"), &out);
    struct cofi_recording *recording = open_quietly(scratch_path("first.data"), NULL);
    assert_int_equal(cofi_recording_thread(recording, 0, 0x2000, NULL), SHELL);
    assert_int_equal(cofi_recording_thread(recording, 0, 0x3000, NULL), OTHER);
    cofi_recording_close(recording);
}

/* What perf finds running it tells as forks of processes whose children have executed since (before perf 4.20 without saying so): of those a child has
 * no memory. One that forks while it is recorded has its parent's. */
static void a_fork_that_perf_made_up_gives_no_memory(void **state)
{
    (void)state;
    enum { CHILD = 55 };
    static struct bytes out;
    static const struct { uint16_t misc; uint64_t time; const char *want; } cases[] = {
        {PERF_MISC_FORK_EXEC, 0, "[gap 401000] [gap ffffffff81000010] [gap 401002] [disabled] "},
        {0, 0, "[gap 401000] [gap ffffffff81000010] [gap 401002] [disabled] "},
        {0, 0x800, "401000 [gap ffffffff81000010] 401002 401003 [disabled] "}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct who who = {SHELL, SHELL, 0, cases[i].time, cases[i].time ? EV_TRACK : SYNTHESIZED};
        out.n = 0;
        add_start(&out, 3);
        WORDS(&out, PERF_FORK, cases[i].misc, &who, CHILD | (uint64_t)SHELL << 32, CHILD | (uint64_t)SHELL << 32, cases[i].time);
        add_switch(&out, 0, CHILD, CHILD, 0x1000);
        auxtrace(&out, 0, -1, 0, 0x1000, SYSTEM_CALL("20"));
        write_file(scratch_path("found.data"), &out);
        struct cofi_recording *recording = open_quietly(scratch_path("found.data"), NULL);
        assert_string_equal(flow_text(recording, 0, NULL, NULL), cases[i].want);
        cofi_recording_close(recording);
    }
}

/* Which switches were lost nobody knows, but the kernel tells of the loss as soon as it can, and whom it interrupts. */
static void who_runs_behind_lost_records_is_told_by_the_loss(void **state)
{
    (void)state;
    static struct bytes out;
    out.n = 0;
    add_start(&out, 3);
    add_switch(&out, 0, SHELL, SHELL, 0x1000);
    WORDS(&out, PERF_LOST, 0, (&(struct who){OTHER, OTHER, 0, 0x3000, EV_SWITCH}), ID_BASE + EV_SWITCH, 3);
    WORDS(&out, PERF_LOST, 0, (&(struct who){0, 0, 0, 0x5000, EV_SWITCH}), ID_BASE + EV_SWITCH, 3);
    auxtrace(&out, 0, -1, 0, 0x1000, SYSTEM_CALL("20") SYSTEM_CALL("40"));
    write_file(scratch_path("lost.data"), &out);
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, scratch_path("lost.data"), NULL), 0);
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "lost 6 sideband records"));
    assert_int_equal(cofi_recording_thread(recording, 0, 0x2fff, NULL), SHELL);
    assert_int_equal(cofi_recording_thread(recording, 0, 0x3000, NULL), OTHER);
    assert_int_equal(cofi_recording_thread(recording, 0, 0x5000, NULL), OTHER); /* one of lldb's, say, which has no thread */
    cofi_recording_close(recording);
}

/* Between two TSC packets the kernel goes from one process to another; MTC tells the time well enough [decision 0607]. */
static void another_process_is_seen_where_the_kernel_returns_to_it(void **state)
{
    (void)state;
    static struct bytes out;
    const char *program = scratch_path("second");
    write_code(program, USER_TEXT, "0f05 ffe0 ffe0"); /* syscall; jmp *rax */
    out.n = 0;
    add_start(&out, 3);
    mmap2(&out, &(struct who){OTHER, OTHER, 0, 0x101, EV_TRACK}, PERF_MISC_USER, OTHER,
          &(struct mapping){USER_TEXT, 0x1000, 0x1000, program, NULL});
    add_switch(&out, 0, SHELL, SHELL, 0x1000);
    add_switch(&out, 0, OTHER, OTHER, 0x2100);
    auxtrace(&out, 0, -1, 0, 0x1000, "P19 0020 0000000000 0273 0000 00 0000 02031800 0223 9901 71001040000000"
             "cd10000081ffffffff 5901 6d021040000000 01");
    write_pipe(scratch_path("two.data"), &out);
    struct cofi_recording_options options = {.size = sizeof options, .kcore = scratch_path("wide/kcore_dir/kcore")};
    struct cofi_recording *recording = open_quietly(scratch_path("two.data"), &options);
    static const char want[] = "401000 ffffffff81000010 ffffffff81000011 ffffffff81000012 401002 [disabled] ";
    assert_string_equal(flow_text(recording, 0, NULL, NULL), want);
    cofi_recording_close(recording);
    /* And where the kernel's code is missing. */
    recording = open_quietly(scratch_path("two.data"), NULL);
    assert_string_equal(flow_text(recording, 0, NULL, NULL), "401000 [gap ffffffff81000010] 401002 [disabled] ");
    cofi_recording_close(recording);
}

/* ---- guests ---- */

struct asked {
    struct cofi_recording *recording;
    size_t stream;
};

static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    const struct asked *asked = opaque;
    (void)cr3;
    (void)vmcs;
    return non_root ? cofi_recording_guest_image(asked->recording, asked->stream) :
                      cofi_recording_stream_image(asked->recording, asked->stream);
}

static const char *guest_flow(struct cofi_recording *recording)
{
    struct asked asked = {recording, 0};
    return flow_text(recording, 0, space, &asked);
}

static void add_hypervisor(struct bytes *out)
{
    struct who who = {HYPERVISOR, VCPU_THREAD, 0, 0x100, EV_TRACK};
    comm(out, &who, "CPU 0/KVM", false);
    add_switch(out, 0, HYPERVISOR, VCPU_THREAD, 0x1000);
    auxtrace(out, 0, -1, 0, 0x1000, GUEST_ENTRY);
}

static void a_guest_is_not_decoded_with_the_hosts_code(void **state)
{
    (void)state;
    static struct bytes out;
    out.n = 0;
    add_start(&out, 3);
    add_hypervisor(&out);
    write_file(scratch_path("wide/data"), &out);
    struct cofi_recording *recording = open_quietly(scratch_path("wide"), NULL);
    struct cofi_view *view;
    struct cofi_code code;
    assert_string_equal(guest_flow(recording), "ffffffff81000020 [gap ffffffff81000010] [gap ffffffff81000018] "
                        "ffffffff81000023 ffffffff81000024 [disabled] ");
    assert_int_equal(cofi_view_open(&view, cofi_recording_guest_image(recording, 0)), 0);
    assert_int_equal(cofi_view_find(view, KTEXT + 0x10, &code), COFI_ERR_NO_CODE);
    assert_non_null(strstr(cofi_view_why(view), "code of a guest"));
    cofi_view_close(view);
    cofi_recording_close(recording);
}

/* perf kvm --guest record: of guests with --guestmount, which have numbers, or --guestkallsyms; their kernels are below --guestmount. */
static void a_guests_kernel_is_read_below_guestmount(void **state)
{
    (void)state;
    static struct bytes out;
    struct cofi_view *view;
    struct cofi_code code;
    run_command("mkdir -p %s/kvm/0/proc %s/kvm/70/proc", scratch, scratch);
    for (int32_t pid = 0; pid <= HYPERVISOR; pid += HYPERVISOR) {
        out.n = 0;
        add_start(&out, 3);
        const char *name = pid ? "[guest.kernel.kallsyms.70]_text" : "[guest.kernel.kallsyms]_text";
        mmap1(&out, PERF_MISC_GUEST_KERNEL, pid, &(struct mapping){KTEXT, 0x1000000, KTEXT, name, NULL});
        mmap1(&out, PERF_MISC_GUEST_KERNEL, pid, &(struct mapping){MODULE, 0x1000, 0, "[guests]", NULL});
        add_hypervisor(&out);
        write_file(scratch_path("kvm.data"), &out);
        char proc[200];
        snprintf(proc, sizeof proc, "%s/kvm/%d/proc", scratch, pid);
        run_command("rm -f %s/kvm/*/proc/*", scratch);
        struct cofi_recording_options options = {.size = sizeof options, .guestmount = scratch_path("kvm")};
        struct cofi_recording *recording = open_quietly(scratch_path("kvm.data"), &options);
        assert_int_equal(cofi_view_open(&view, cofi_recording_guest_image(recording, 0)), 0);
        cofi_view_advance(view, 0x2000, NULL, NULL);
        assert_int_equal(cofi_view_find(view, KTEXT + 0x10, &code), COFI_ERR_NO_CODE);
        assert_non_null(strstr(cofi_view_why(view), "--guestmount"));
        assert_int_equal(cofi_view_find(view, MODULE, &code), COFI_ERR_NO_CODE);
        assert_non_null(strstr(cofi_view_why(view), "[module]"));
        cofi_view_close(view);
        cofi_recording_close(recording);
        char path[240];
        snprintf(path, sizeof path, "%s/kcore", proc);
        write_code(path, KTEXT, GUEST_CODE);
        snprintf(path, sizeof path, "%s/kallsyms", proc);
        write_text(path, "ffffffff81000000 T _text\n");
        snprintf(path, sizeof path, "%s/modules", proc);
        write_text(path, "");
        recording = open_quietly(scratch_path("kvm.data"), &options);
        assert_non_null(strstr(guest_flow(recording), "ffffffff81000010 ffffffff81000011 ffffffff81000018 "));
        cofi_recording_close(recording);
        write_text(scratch_path(pid ? "kvm/70/proc/kallsyms" : "kvm/0/proc/kallsyms"), "ffffffff82000000 T _text\n"); /* another boot's */
        recording = open_quietly(scratch_path("kvm.data"), &options);
        assert_non_null(strstr(guest_flow(recording), "[gap ffffffff81000010]"));
        cofi_recording_close(recording);
    }
}

/* perf inject --guest-data: the guest's events have ids of their own, which ID_INDEX gives to a vcpu. */
static void a_guest_whose_sideband_was_injected_has_its_own_code(void **state)
{
    (void)state;
    static struct bytes out;
    char path[200];
    static const uint8_t other_id[20] = {1};
    struct who who = {SHELL, SHELL, 0, 0x100, EV_GUEST};
    out.n = 0;
    WORDS(&out, PERF_ID_INDEX, 0, NULL, 2, ID_BASE + EV_PT, 0, 0, UINT64_MAX, ID_BASE + EV_GUEST, 0, 0, VCPU_THREAD,
          0, 0, HYPERVISOR, 0);
    add_start(&out, 3);
    /* The guest has a process 50, too, and its program at the same address; its kernel is another one. */
    mmap2(&out, &(struct who){-1, 0, UINT32_MAX, 0, EV_GUEST}, PERF_MISC_GUEST_KERNEL, -1,
          &(struct mapping){KTEXT, 0x1000000, KTEXT, "[guest.kernel.kallsyms.70]_text", other_id});
    comm(&out, &who, "guests", true);
    mmap2(&out, &who, PERF_MISC_GUEST_USER, SHELL, &(struct mapping){USER_TEXT, 0x1000, 0x1000, "/bin/init", NULL});
    WORDS(&out, PERF_SWITCH_CPU_WIDE, 0, (&(struct who){SHELL, SHELL, 0, 0x1100, EV_GUEST}), 0);
    add_hypervisor(&out);
    write_file(scratch_path("wide/data"), &out);
    make_directory(scratch_path("wide/kcore_dir__70"));
    write_code(scratch_path("wide/kcore_dir__70/kcore"), KTEXT, GUEST_CODE);
    write_text(scratch_path("wide/kcore_dir__70/kallsyms"), "");
    write_text(scratch_path("wide/kcore_dir__70/modules"), "");
    snprintf(path, sizeof path, "mkdir -p %s/mount/70/bin", scratch);
    assert_int_equal(system(path), 0);
    write_code(scratch_path("mount/70/bin/init"), USER_TEXT, GUEST_CODE);
    struct cofi_recording_options options = {.size = sizeof options, .guestmount = scratch_path("mount")};
    struct cofi_recording *recording = open_quietly(scratch_path("wide"), &options);
    struct cofi_view *view;
    struct cofi_code code;
    assert_string_equal(guest_flow(recording), "ffffffff81000020 ffffffff81000010 ffffffff81000011 ffffffff81000018 "
                        "ffffffff81000023 ffffffff81000024 [disabled] ");
    assert_int_equal(cofi_view_open(&view, cofi_recording_guest_image(recording, 0)), 0);
    cofi_view_advance(view, 0x2000, NULL, NULL);
    assert_int_equal(cofi_view_find(view, USER_TEXT + 0x11, &code), 0);
    assert_int_equal(code.bytes[USER_TEXT + 0x11 - code.start], 0xff);
    assert_string_equal(code.path, "/bin/init");
    cofi_view_close(view);
    /* The host's process 50 has what it had, and its name. */
    assert_string_equal(cofi_recording_comm(recording, SHELL, 0x2000), "shell");
    assert_string_equal(why(recording, USER_TEXT), "");
    cofi_recording_close(recording);
    /* Without --guestmount a file of that name here is not taken for the guest's. */
    recording = open_quietly(scratch_path("wide"), NULL);
    assert_int_equal(cofi_view_open(&view, cofi_recording_guest_image(recording, 0)), 0);
    cofi_view_advance(view, 0x2000, NULL, NULL);
    assert_int_equal(cofi_view_find(view, USER_TEXT + 0x11, &code), COFI_ERR_NO_CODE);
    assert_non_null(strstr(cofi_view_why(view), "--guestmount"));
    cofi_view_close(view);
    cofi_recording_close(recording);
}

/* What runs at USER_TEXT from a time on: the file's name, or why there is none. */
static const char *runs_at(struct cofi_view *view, uint64_t time)
{
    struct cofi_code code;
    assert_true(cofi_view_advance(view, time, NULL, NULL) >= 0);
    if (cofi_view_find(view, USER_TEXT, &code) >= 0)
        return code.path;
    return strstr(cofi_view_why(view), "code of a guest") ? "no guest" : "nothing";
}

static void guest_switch(struct bytes *out, int32_t pid, uint64_t time)
{
    WORDS(out, PERF_SWITCH_CPU_WIDE, 0, (&(struct who){pid, pid, 0, time, EV_GUEST}), 0);
}

/* A guest's processes 50 and 51, which have another file each at the same address, take turns on its processor; that one loses the host's
 * processor for a while, and goes on on another. 51 forks 52, which executes the other file. */
static void processes_of_a_guest_take_turns(void **state)
{
    (void)state;
    static const char *const files[] = {"/bin/a", "/bin/b"};
    static struct bytes out;
    struct who who = {HYPERVISOR, VCPU_THREAD, 0, 0x100, EV_TRACK};
    out.n = 0;
    WORDS(&out, PERF_ID_INDEX, 0, NULL, 2, ID_BASE + EV_PT, 0, 0, UINT64_MAX, ID_BASE + EV_GUEST, 0, 0, VCPU_THREAD,
          0, 0, HYPERVISOR, 0);
    add_start(&out, 3);
    comm(&out, &who, "CPU 0/KVM", false);
    for (int32_t i = 0; i < 2; i++) {
        who = (struct who){SHELL + i, SHELL + i, 0, 0x100, EV_GUEST};
        mmap2(&out, &who, PERF_MISC_GUEST_USER, SHELL + i, &(struct mapping){USER_TEXT, 0x1000, 0x1000, files[i], NULL});
    }
    add_switch(&out, 0, HYPERVISOR, VCPU_THREAD, 0x1000);
    add_switch(&out, 1, OTHER, OTHER, 0x1000);
    guest_switch(&out, SHELL, 0x1100);
    guest_switch(&out, SHELL + 1, 0x2000);
    add_switch(&out, 0, OTHER, OTHER, 0x3000);
    add_switch(&out, 0, HYPERVISOR, VCPU_THREAD, 0x4000);
    guest_switch(&out, SHELL, 0x4800);
    guest_switch(&out, 0, 0x5000);
    add_switch(&out, 0, OTHER, OTHER, 0x5800);
    add_switch(&out, 1, HYPERVISOR, VCPU_THREAD, 0x6000);
    who = (struct who){SHELL + 1, SHELL + 1, 0, 0x6080, EV_GUEST};
    WORDS(&out, PERF_FORK, 0, &who, (SHELL + 2) | (uint64_t)(SHELL + 1) << 32, (SHELL + 2) | (uint64_t)(SHELL + 1) << 32, 0x6080);
    guest_switch(&out, SHELL + 2, 0x6100);
    who = (struct who){SHELL + 2, SHELL + 2, 0, 0x6500, EV_GUEST};
    comm(&out, &who, "a", true);
    mmap2(&out, &who, PERF_MISC_GUEST_USER, SHELL + 2, &(struct mapping){USER_TEXT, 0x1000, 0x1000, files[0], NULL});
    auxtrace(&out, 0, -1, 0, 0x1000, GUEST_ENTRY);
    auxtrace(&out, 1, -1, 1, 0x1000, GUEST_ENTRY);
    write_file(scratch_path("turns.data"), &out);
    run_command("mkdir -p %s/mount/70/bin", scratch);
    write_code(scratch_path("mount/70/bin/a"), USER_TEXT, GUEST_CODE);
    write_code(scratch_path("mount/70/bin/b"), USER_TEXT, USER_CODE);
    struct cofi_recording_options options = {.size = sizeof options, .guestmount = scratch_path("mount")};
    struct cofi_recording *recording = open_quietly(scratch_path("turns.data"), &options);
    static const struct {
        size_t stream;
        uint64_t time;
        const char *runs;
    } rows[] = {
        {0, 0x1200, "/bin/a"}, {0, 0x2100, "/bin/b"}, {0, 0x3100, "no guest"}, {0, 0x4100, "/bin/b"}, {0, 0x4900, "/bin/a"},
        {0, 0x5100, "nothing"}, {0, 0x5900, "no guest"}, {0, 0x6200, "no guest"}, {1, 0x1200, "no guest"}, {1, 0x4900, "no guest"},
        {1, 0x6050, "nothing"}, {1, 0x6200, "/bin/b"}, {1, 0x6600, "/bin/a"},
    };
    struct cofi_view *views[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(cofi_view_open(&views[i], cofi_recording_guest_image(recording, i)), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *runs = runs_at(views[rows[i].stream], rows[i].time);
        if (strcmp(runs, rows[i].runs))
            fail_msg("processor %zu at %#llx: %s", rows[i].stream, (unsigned long long)rows[i].time, runs);
    }
    cofi_view_close(views[0]);
    cofi_view_close(views[1]);
    cofi_recording_close(recording);
}

/* ---- perf record --aux-sample -z ---- */

static void trace_in_compressed_samples(void **state)
{
    (void)state;
    static struct bytes out, plain, packed;
    out.n = plain.n = 0;
    add_start(&out, 3);
    add_switch(&out, 0, SHELL, SHELL, 0x1000);
    for (int i = 0; i < 2; i++) {
        size_t at = begin(&plain, PERF_SAMPLE, PERF_MISC_USER), bytes;
        static struct bytes trace;
        trace.n = 0;
        add_hex(&trace, i ? SYSTEM_CALL("40") : SYSTEM_CALL("20"));
        while (trace.n % 8)
            add_le(&trace, 0, 1);
        bytes = trace.n;
        add_le(&plain, ID_BASE + EV_SWITCH, 8);
        add_le(&plain, USER_TEXT, 8);
        add_le(&plain, SHELL | (uint64_t)SHELL << 32, 8);
        add_le(&plain, 0x3000 + (uint64_t)i * 0x2000, 8);
        add_le(&plain, 0, 8);
        add_le(&plain, bytes, 8);
        add(&plain, trace.p, bytes);
        end(&plain, at, NULL);
    }
    packed.n = ZSTD_compress(packed.p, sizeof packed.p, plain.p, plain.n, 3);
    assert_false(ZSTD_isError(packed.n));
    size_t at = begin(&out, PERF_COMPRESSED, 0);
    add(&out, packed.p, packed.n);
    put_le(out.p + at + 6, out.n - at, 2);
    write_pipe(scratch_path("z.data"), &out);
    /* The event of the samples has SAMPLE_AUX: its attribute is the second record. */
    size_t n, event = PERF_PIPE_HEADER_BYTES + 8 + EVENT_ATTR_BYTES + 8;
    uint8_t *bytes = read_whole(scratch_path("z.data"), &n);
    put_le(bytes + event + 8 + ATTR_SAMPLE_TYPE, EVENT_SAMPLE_TYPE | SAMPLE_AUX, 8);
    write_whole(scratch_path("z.data"), bytes, n);
    free(bytes);
    struct cofi_recording_options options = {.size = sizeof options, .kcore = scratch_path("wide/kcore_dir/kcore")};
    struct cofi_recording *recording = open_quietly(scratch_path("z.data"), &options);
    assert_int_equal(cofi_recording_streams(recording), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(cofi_recording_stream(recording, i)->cpu, 0);
        assert_string_equal(flow_text(recording, i, NULL, NULL), SYSTEM_CALL_FLOW);
        assert_true(cofi_recording_file_offset(recording, i, 20) < n);
    }
    cofi_recording_close(recording);
}

/* ---- one large piece ---- */

/* A GiB in one piece, mostly holes; a PSB+ each 16 MiB, at the times 1000, 2000 … */
static void a_time_in_a_large_piece_is_found_by_halves(void **state)
{
    (void)state;
    enum { STEPS = 64, STEP = 16 << 20 };
    static struct bytes out;
    const char *path = scratch_path("large.data");
    out.n = 0;
    auxtrace_info(&out, 3, 1);
    auxtrace(&out, 0, 100, -1, 1, "");
    put_le(out.p + out.n - AUXTRACE_BYTES + 8, (uint64_t)STEPS * STEP, 8);
    write_pipe(path, &out);
    size_t start;
    free(read_whole(path, &start));
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    for (uint64_t i = 0; i < STEPS; i++) {
        out.n = 0;
        add_hex(&out, "P19");
        bool guest = i == 48; /* its own clock, which is behind: PIP has NR */
        add_le(&out, guest ? 900 : 1000 * (i + 1), 7);
        add_hex(&out, guest ? "0243 010000000000 0223" : "0223");
        assert_int_equal(fseek(file, (long)(start + i * STEP), SEEK_SET), 0);
        assert_int_equal(fwrite(out.p, 1, out.n, file), out.n);
    }
    assert_int_equal(fseek(file, (long)start + (long)STEPS * STEP - 1, SEEK_SET), 0);
    fputc(0, file);
    fclose(file);
    struct cofi_recording *recording = open_quietly(path, NULL);
    static const uint64_t times[][2] = {{0, 0}, {999, 0}, {1000, 0}, {2000, 0}, {2001, 1}, {33333, 32}, {64000, 62}, {64001, 63}, {1000000, 63}};
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        assert_int_equal(cofi_recording_seek(recording, 0, times[i][0]), times[i][1] * STEP);
    cofi_recording_close(recording);
    unlink(path);
}

/* ---- the recorded processor's defects ---- */

static void defects_are_those_of_the_recorded_processor(void **state)
{
    (void)state;
    static struct bytes out;
    out.n = 0;
    add_start(&out, 3);
    add_switch(&out, 0, SHELL, SHELL, 0x1000);
    /* [ERR SKD007]: the second byte of a CYC is OVF's first one; CPUID says Skylake. [ERR SKD010]: so does it that the FUP may be an event's. */
    auxtrace(&out, 0, -1, 0, 0x1000, "P19 0020 0000000000 0223 9901 71001040000000 07 02f3 7d021040000000 01");
    write_file(scratch_path("sky.data"), &out);
    struct cofi_recording *recording = open_quietly(scratch_path("sky.data"), NULL);
    assert_string_equal(flow_text(recording, 0, NULL, NULL), "[overflow] [gap 401002] [disabled] ");
    cofi_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_of_a_system_wide_recording_in_a_file_and_from_a_pipe),
        cmocka_unit_test(a_kernel_is_entered_by_a_page_of_the_processors),
        cmocka_unit_test(a_kcore_has_the_names_beside_it),
        cmocka_unit_test(samples_of_sched_switch_tell_who_ran),
        cmocka_unit_test(a_commands_children_are_told_from_it_by_switches),
        cmocka_unit_test(who_ran_before_the_first_switch_is_told_by_it),
        cmocka_unit_test(a_fork_that_perf_made_up_gives_no_memory),
        cmocka_unit_test(who_runs_behind_lost_records_is_told_by_the_loss),
        cmocka_unit_test(another_process_is_seen_where_the_kernel_returns_to_it),
        cmocka_unit_test(trace_in_compressed_samples),
        cmocka_unit_test(a_time_in_a_large_piece_is_found_by_halves),
        cmocka_unit_test(defects_are_those_of_the_recorded_processor),
        cmocka_unit_test(a_guest_is_not_decoded_with_the_hosts_code),
        cmocka_unit_test(a_guests_kernel_is_read_below_guestmount),
        cmocka_unit_test(a_guest_whose_sideband_was_injected_has_its_own_code),
        cmocka_unit_test(processes_of_a_guest_take_turns),
        cmocka_unit_test(bpf_programs_of_the_header_are_code_of_the_kernel),
        cmocka_unit_test(a_kernels_build_id_in_the_header_finds_its_vmlinux),
        cmocka_unit_test(the_running_kernel_is_used_if_it_is_the_recorded_one),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

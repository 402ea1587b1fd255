/* SPDX-License-Identifier: MIT
 * A kernel's modules where there is no kcore: their files are laid out and relocated as the kernel does. */
#include "sample.h"

#include <sys/utsname.h>

#include "base/bytes.h"

#define KERNEL UINT64_C(0xffffffff9b000000)
#define MODULE UINT64_C(0xffffffffc0200000)
#define OTHER UINT64_C(0xffffffffc0300000)
#define REST_OF_ID "cd0102030405060708090a0b0c0d0e0f101112"
#define FOLDER "/.debug/.build-id/ab/" REST_OF_ID
static const uint8_t id_bytes[20] = {0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

#define NOTE \
    ".section .note.gnu.build-id,\"a\",@note\n" \
    ".long 4, 20, 3\n .asciz \"GNU\"\n .byte 0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18\n"

static const char module_text[] = NOTE
    ".section .modinfo,\"a\"\n .asciz \"license=GPL\"\n .asciz \"depends=third,other\"\n"
    ".text\n .globl first\n .type first,@function\n"
    "first: call __fentry__\n"       /* 00 */
    " call _text\n"                  /* 05 */
    " call in_other\n"               /* 0a */
    " jne second\n"                  /* 0f 0f 85 */
    " call nowhere\n"                /* 15 */
    " lea datum(%rip), %rax\n"       /* 1a 48 8d 05: left as it is */
    " ret\n"                         /* 21 */
    ".size first, .-first\n"
    ".section .init.text,\"ax\"\n .fill 0x100, 1, 0xcc\n"
    ".section .text.unlikely,\"ax\"\n .balign 16\n .globl second\n .type second,@function\n"
    "second: jmp first\n"            /* 30 */
    ".size second, .-second\n"
    ".data\n datum: .quad 0\n";

static const char other_text[] = NOTE ".text\n .fill 0x40, 1, 0x90\n .globl in_other\n in_other: ret\n";
static const char kernel_text[] = NOTE ".text\n .globl _text\n .type _text,@function\n _text: ret\n";

static void assemble(const char *text, const char *object)
{
    write_whole(scratch_path("x.s"), (const uint8_t *)text, strlen(text));
    run_command("as -o %s/%s %s/x.s", scratch, object, scratch);
}

static int make_files(void **state)
{
    make_scratch(state);
    setenv("HOME", scratch, 1);
    run_command("mkdir -p %s" FOLDER, scratch);
    assemble(module_text, "mod-ule.ko");
    assemble(other_text, "other.ko");
    return 0;
}

static struct cofi_sideband kernel_mapping(uint64_t addr, uint64_t pgoff, const char *name)
{
    struct cofi_sideband map = {.kind = COFI_SB_MMAP, .pid = -1, .kernel = true, .addr = addr, .len = 0x4000,
                                .pgoff = pgoff, .name = name, .build_id_size = 20};
    memcpy(map.build_id, id_bytes, 20);
    return map;
}

/* A recording of a kernel with two modules, whose files perf named so. */
static const char *record(const char *module, const char *other)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("m.data");
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, kernel_mapping(KERNEL, KERNEL, "[kernel.kallsyms]_text"));
    put(writer, kernel_mapping(MODULE, 0, module));
    put(writer, kernel_mapping(OTHER, 0, other));
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 7, .tid = 7, .name = "x"});
    assert_int_equal(cofi_writer_trace(writer, 7, 7, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    return path;
}

struct opened {
    struct cofi_recording *recording;
    struct cofi_view *view;
    struct cofi_code code;
};

static struct opened open_at(const char *path, const char *symfs, uint64_t addr)
{
    struct opened o;
    struct cofi_recording_options options = {.size = sizeof options, .symfs = symfs};
    assert_int_equal(cofi_recording_open_with(&o.recording, path, &options, NULL), 0);
    assert_int_equal(cofi_view_open(&o.view, cofi_recording_image(o.recording, 7)), 0);
    if (cofi_view_find(o.view, addr, &o.code) < 0)
        o.code.bytes = NULL;
    return o;
}

static void close_all(struct opened *o)
{
    cofi_view_close(o->view);
    cofi_recording_close(o->recording);
}

/* Where the branch at an offset, whose displacement lies `in` bytes behind it, goes. */
static uint64_t target(const struct opened *o, unsigned at, unsigned in)
{
    int32_t displacement;
    memcpy(&displacement, o->code.bytes + at + in, 4);
    return o->code.start + at + in + 4 + (uint64_t)(int64_t)displacement;
}

/* first's code, as it is with all known but what `in_other` is. */
static void check_module(const char *path, const char *symfs, uint64_t in_other)
{
    static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0, 0};
    struct opened o = open_at(path, symfs, MODULE);
    if (!o.code.bytes)
        fail_msg("%s", cofi_view_why(o.view));
    assert_true(o.code.start == MODULE && o.code.end == MODULE + 0x35);
    assert_memory_equal(o.code.bytes, nop, 5);
    assert_true(target(&o, 0x05, 1) == KERNEL);
    assert_true(target(&o, 0x0a, 1) == in_other);
    assert_true(target(&o, 0x0f, 2) == MODULE + 0x30);
    assert_true(target(&o, 0x15, 1) == MODULE + 0x1a - (UINT64_C(1) << 31)); /* where no code can be */
    assert_int_equal(le32(o.code.bytes + 0x1d), 0);
    assert_true(target(&o, 0x30, 1) == MODULE);
    assert_int_equal(o.code.mode, 64);
    close_all(&o);
}

static void kallsyms(const char *text) { write_whole(scratch_path("." FOLDER "/kallsyms"), (const uint8_t *)text, strlen(text)); }

/* perf keeps kallsyms of the boot that it recorded: it has modules' functions, too. */
static void calls_go_where_kallsyms_has_the_functions(void **state)
{
    (void)state;
    kallsyms("ffffffff9b000000 T _text\n0000000000000000 T nowhere\nffffffffc0300123 t in_other\t[third]\n"
             "ffffffffc0300123 T in_other\t[other]\n");
    check_module(record(scratch_path("mod-ule.ko"), "/nowhere/other.ko"), NULL, OTHER + 0x123);
}

/* Of another boot the kernel has moved, its modules are elsewhere: those that are needed are looked into. */
static void kallsyms_of_another_boot_is_moved_without_its_modules(void **state)
{
    (void)state;
    kallsyms("ffffffff81000000 T _text\nffffffffc0300123 T in_other\t[other]\n");
    check_module(record(scratch_path("mod-ule.ko"), scratch_path("other.ko")), NULL, OTHER + 0x40);
}

static void calls_go_where_a_vmlinux_has_the_functions(void **state)
{
    (void)state;
    unlink(scratch_path("." FOLDER "/kallsyms"));
    assemble(kernel_text, "kernel.o");
    run_command("ld -Ttext=0xffffffff81000000 -e _text -o %s" FOLDER "/vmlinux %s/kernel.o", scratch, scratch);
    check_module(record(scratch_path("mod-ule.ko"), scratch_path("other.ko")), NULL, OTHER + 0x40);
}

static void compressed_modules_are_unpacked(void **state)
{
    (void)state;
    run_command("cd %s && gzip -k mod-ule.ko && zstd -q mod-ule.ko other.ko", scratch);
    check_module(record(scratch_path("mod-ule.ko.gz"), scratch_path("other.ko.zst")), NULL, OTHER + 0x40);
    check_module(record(scratch_path("mod-ule.ko.zst"), scratch_path("other.ko")), NULL, OTHER + 0x40);
}

/* perf wrote [mod_ule] where it found no file; the kernel's own list says where it is. */
static void a_module_without_a_path_is_looked_up(void **state)
{
    (void)state;
    struct utsname name;
    const char *dep = "kernel/mod-ule.ko.gz: kernel/other.ko\nkernel/other.ko:\n";
    assert_int_equal(uname(&name), 0);
    run_command("cd %s && mkdir -p r/lib/modules/%s/kernel && cp *.ko *.gz r/lib/modules/%s/kernel", scratch, name.release, name.release);
    write_whole(scratch_path("dep"), (const uint8_t *)dep, strlen(dep));
    run_command("cd %s && mv dep r/lib/modules/%s/modules.dep", scratch, name.release);
    check_module(record("[mod_ule]", "[other]"), scratch_path("r"), OTHER + 0x40);
}

static void its_functions_have_their_names(void **state)
{
    (void)state;
    struct cofi_symbol symbol;
    struct opened o = open_at(record(scratch_path("mod-ule.ko.zst"), scratch_path("other.ko")), NULL, MODULE);
    cofi_view_symbol(o.view, MODULE + 0x32, true, &symbol);
    assert_non_null(symbol.name);
    assert_string_equal(symbol.name, "second");
    assert_int_equal(symbol.offset, 2);
    close_all(&o);
}

/* perf's cache has what the file was. */
static void a_file_of_another_build_id_is_not_read(void **state)
{
    (void)state;
    char text[sizeof module_text];
    kallsyms("ffffffff81000000 T _text\n");
    memcpy(text, module_text, sizeof text);
    memcpy(strstr(text, "0xab"), "0xac", 4);
    assemble(text, "new.ko");
    struct opened o = open_at(record(scratch_path("new.ko"), scratch_path("other.ko")), NULL, MODULE);
    assert_null(o.code.bytes);
    assert_non_null(strstr(cofi_view_why(o.view), "build id differs"));
    close_all(&o);
    run_command("cp %s/mod-ule.ko %s" FOLDER "/elf", scratch, scratch);
    check_module(record(scratch_path("new.ko"), scratch_path("other.ko")), NULL, OTHER + 0x40);
}

/* The boot image of the kernel's release: a head that says where the compressed kernel is. */
static void a_kernel_is_unpacked_from_its_boot_image(void **state)
{
    (void)state;
    uint8_t head[1024] = {[0x1f1] = 1, [0x202] = 'H', 'd', 'r', 'S'};
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    unlink(scratch_path("." FOLDER "/elf"));
    unlink(scratch_path("." FOLDER "/vmlinux"));
    struct opened o = open_at(record("[a]", "[b]"), scratch_path("r"), KERNEL);
    assert_null(o.code.bytes);
    assert_non_null(strstr(cofi_view_why(o.view), "no kcore, vmlinux or vmlinuz"));
    close_all(&o);
    write_whole(scratch_path("head"), head, sizeof head);
    assemble(kernel_text, "kernel.o");
    run_command("cd %s && ld -Ttext=0xffffffff81000000 -e _text --build-id=0xab" REST_OF_ID " -o kernel kernel.o && strip kernel && zstd -qf kernel && "
        "mkdir -p r/boot && cat head kernel.zst > r/boot/vmlinuz-%s",
        scratch, name.release);
    kallsyms("ffffffff9b000000 T _text\n");
    o = open_at(record("[a]", "[b]"), scratch_path("r"), KERNEL);
    assert_non_null(o.code.bytes);
    assert_int_equal(o.code.bytes[KERNEL - o.code.start], 0xc3);
    struct cofi_symbol symbol;
    cofi_view_symbol(o.view, KERNEL, false, &symbol);
    assert_true(symbol.name && !strcmp(symbol.name, "_text"));
    close_all(&o);
}

static void damaged_files_are_gaps(void **state)
{
    (void)state;
    size_t n;
    uint8_t *bytes = read_whole(scratch_path("mod-ule.ko.zst"), &n);
    unlink(scratch_path("." FOLDER "/elf"));
    write_whole(scratch_path("cut.ko.zst"), bytes, n - 7);
    free(bytes);
    struct opened o = open_at(record(scratch_path("cut.ko.zst"), scratch_path("x.s")), NULL, MODULE);
    assert_null(o.code.bytes);
    assert_non_null(strstr(cofi_view_why(o.view), "unpacked"));
    assert_int_equal(cofi_view_find(o.view, OTHER, &o.code), COFI_ERR_NO_CODE);
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_go_where_kallsyms_has_the_functions),
        cmocka_unit_test(kallsyms_of_another_boot_is_moved_without_its_modules),
        cmocka_unit_test(calls_go_where_a_vmlinux_has_the_functions),
        cmocka_unit_test(compressed_modules_are_unpacked),
        cmocka_unit_test(a_module_without_a_path_is_looked_up),
        cmocka_unit_test(its_functions_have_their_names),
        cmocka_unit_test(a_file_of_another_build_id_is_not_read),
        cmocka_unit_test(a_kernel_is_unpacked_from_its_boot_image),
        cmocka_unit_test(damaged_files_are_gaps),
    };
    return cmocka_run_group_tests(tests, make_files, remove_scratch);
}

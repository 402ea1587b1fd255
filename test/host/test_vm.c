/* SPDX-License-Identifier: MIT
 * Runs of instructions that begin on a scripted processor -> what observers are told, line by line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/image.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/qemu/kcore.h"
#include "host/qemu/vm.h"

enum { CPUS = 2, MEMORY = 1 << 16, NO_FRAME = 0 };
#define TEXT UINT64_C(0xffffffff81000000) /* memory[0] is there, and at all addresses that are as far above 64 KiB */
#define HANDLER (TEXT + 0x800)

static struct cofi__vm vm;
static uint64_t regs[VM_REGS];
static uint8_t memory[MEMORY];
static unsigned started[CPUS];
static struct cofi__run *runs[64];
static uint64_t places[64];
static size_t runs_n;
static char told[4096];

/* ---- who is told ---- */

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t n = strlen(told);
    va_list args;
    va_start(args, format);
    vsnprintf(told + n, sizeof told - n, format, args);
    va_end(args);
}

static int on_begin(void *opaque, const struct cofi_task *task, const struct cofi_context *context, const struct cofi_event *clock)
{
    (void)opaque;
    note("%d begins at %llx, cpl %u\n", task->tid, (unsigned long long)clock->ip & 0xffff, context->cpl);
    return 0;
}

static int on_event(void *opaque, const struct cofi_task *task, const struct cofi_event *event)
{
    char text[200];
    (void)opaque;
    struct cofi_event shown = *event;
    shown.ip &= 0xffff, shown.next = 0, shown.size = 0, shown.target &= 0xffff, shown.tsc = shown.cycles = 0;
    shown.context_set = false;
    if (event->kind == COFI_EV_CLOCK)
        return 0;
    cofi_event_print(&shown, NULL, text, sizeof text);
    note("%d %s", task->tid, text);
    if (event->context_set)
        note(" : cpl %u mode %u cr3 %llx", event->after.cpl, event->after.mode, (unsigned long long)event->after.cr3);
    note("\n");
    return 0;
}

static int on_insn(void *opaque, const struct cofi_task *task, uint64_t ip, bool interrupt)
{
    (void)opaque;
    note("%d ran %llx%s\n", task->tid, (unsigned long long)ip & 0xffff, interrupt ? " int" : "");
    return 0;
}

static int on_sideband(void *opaque, const struct cofi_sideband *sb)
{
    (void)opaque;
    if (sb->kind == COFI_SB_MMAP)
        note("%s at %llx\n", sb->name, (unsigned long long)sb->addr);
    if (sb->kind == COFI_SB_COMM)
        note("space %d is %s\n", sb->pid, sb->name);
    if (sb->kind == COFI_SB_SWITCH_CPU && !sb->out)
        note("%u in space %d\n", sb->cpu, sb->pid);
    if (sb->kind == COFI_SB_CODE)
        note("code of %d%s at %llx from %s\n", sb->pid, sb->kernel ? " (kernel)" : "", (unsigned long long)sb->addr & 0xffff,
             sb->time_ns ? "now" : "the start");
    return 0;
}

static int on_end(void *opaque, const struct cofi_task *task)
{
    (void)opaque;
    note("%d ends\n", task->tid);
    return 0;
}

/* ---- the processor ---- */

static uint64_t read_reg(void *opaque, enum cofi__vm_reg reg)
{
    (void)opaque;
    return regs[reg];
}

static bool read_memory(void *opaque, uint64_t address, void *bytes, size_t n)
{
    (void)opaque;
    size_t at = address & (MEMORY - 1);
    if (at + n > MEMORY)
        return false;
    memcpy(bytes, memory + at, n);
    return true;
}

static void put_word(uint64_t address, uint64_t word)
{
    memcpy(memory + (address & (MEMORY - 1)), &word, 8);
}

/* A run at ip of instructions given as hexadecimal digits, with blanks between them; it lies in memory, too. */
static struct cofi__run *at(uint64_t ip, const char *text)
{
    uint8_t lengths[16], bytes[64];
    size_t n = 0, total = 0;
    for (const char *p = text; *p; n++, p += *p == ' ') {
        size_t from = total;
        for (; *p && *p != ' '; p += 2)
            bytes[total++] = (uint8_t)strtoul((char[]){p[0], p[1], 0}, NULL, 16);
        lengths[n] = (uint8_t)(total - from);
    }
    memcpy(memory + (ip & (MEMORY - 1)), bytes, total);
    places[runs_n] = ip;
    return runs[runs_n++] = cofi__run_new(lengths, n, bytes, total);
}

/* It begins on a processor; then `insns` of it do. */
static void begin(unsigned cpu, struct cofi__run *run, unsigned insns)
{
    struct cofi__vm_door door = {NULL, read_reg, read_memory};
    assert_non_null(run);
    for (size_t i = 0; i < runs_n; i++)
        if (runs[i] == run)
            regs[VM_RIP] = places[i];
    cofi__vm_run(&vm, cpu, run, started[cpu], &door);
    started[cpu] = insns;
}

/* As delivery of an event leaves the stack and the flags. */
static void deliver(uint64_t ip, uint16_t cs, uint64_t sp, bool error)
{
    uint64_t frame = TEXT + 0x9000 - (error ? 48 : 40);
    uint64_t words[] = {ip, cs, 0x246, sp, cs & 3 ? 0x2b : 0x18};
    for (size_t i = 0; i < 5; i++)
        put_word(frame + 8 * (i + error), words[i]);
    regs[VM_RSP] = frame;
    regs[VM_EFLAGS] = 2;
    regs[VM_CS] = 0x10;
}

static int set_up(void **state)
{
    static const struct cofi_observer observer = {.begin = on_begin, .event = on_event, .insn = on_insn, .sideband = on_sideband, .end = on_end};
    (void)state;
    vm = (struct cofi__vm){.observers = {&observer}, .observers_n = 1};
    memset(regs, 0, sizeof regs);
    memset(memory, 0, sizeof memory);
    memset(started, 0, sizeof started);
    regs[VM_CS] = 0x10, regs[VM_CR3] = 0x1000, regs[VM_EFLAGS] = 0x202, regs[VM_RSP] = TEXT + 0x8000;
    told[0] = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cofi__vm_fini(&vm);
    for (size_t i = 0; i < runs_n; i++)
        free(runs[i]);
    runs_n = 0;
    return 0;
}

/* Past the first lines, that are the same everywhere. */
static void check(const char *expected)
{
    static const char common[] = "0 begins at 0, cpl 0\n[kernel.kallsyms]_text at ffffffff81000000\nspace 1 is cr3 1000\n0 in space 1\ncode of -1 (kernel) at 0 from the start\n";
    assert_memory_equal(told, common, strlen(common));
    assert_string_equal(told + strlen(common), expected);
}

/* ---- tests ---- */

static void branches_lead_where_the_next_run_begins(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "90 90 7410"),
        at(TEXT + 0x14, "ffd0"),
        at(TEXT + 0x100, "7410"),
        at(TEXT + 0x102, "c3"),
        at(TEXT + 0x16, "e9e5000000"),
    };
    begin(0, r[0], 3);          /* nop, nop, je */
    begin(0, r[1], 1);         /* taken; call rax */
    begin(0, r[2], 1);
    begin(0, r[3], 1);          /* not taken; ret */
    begin(0, r[4], 1);   /* jmp */
    begin(0, r[2], 0);
    check("0 ran 0\n0 ran 1\n0 jcc ip=2 target=14 taken\n0 ran 2\n"
          "0 call* ip=14 target=100\n0 ran 14\n"
          "0 jcc ip=100 target=112\n0 ran 100\n"
          "0 ret ip=102 target=16\n0 ran 102\n"
          "0 jmp ip=16 target=100\n0 ran 16\n");
    assert_int_equal(vm.retired, 7);
}

static void what_faults_has_not_run(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "90 8b00 90"),
        at(HANDLER, "48cf"),
        at(TEXT + 1, "8b00 90"),
        at(TEXT + 4, "90"),
    };
    begin(0, r[0], 2); /* mov eax, [rax] does not come to its end */
    deliver(TEXT + 1, 0x10, TEXT + 0x8000, true);
    begin(0, r[1], 1);
    regs[VM_RSP] = TEXT + 0x8000, regs[VM_EFLAGS] = 0x246;
    begin(0, r[2], 2);
    begin(0, r[3], 0);
    check("0 ran 0\n0 event fault ip=1 target=800 : cpl 0 mode 64 cr3 1000\n"
          "0 far iret ip=800 target=1 : cpl 0 mode 64 cr3 1000\n0 ran 800\n0 ran 1\n0 ran 3\n");
}

/* Once it is known where events lead, they are told from indirect branches that end there by what lies on the stack. */
static void an_interrupt_behind_an_indirect_branch(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "90"),
        at(HANDLER, "48cf"),
        at(TEXT + 1, "c3"),
        at(TEXT + 0x200, "c20800"),
        at(TEXT + 0x300, "ffe0"),
    };
    begin(0, r[0], 1);
    deliver(TEXT + 1, 0x10, TEXT + 0x8000, false);
    begin(0, r[1], 1);
    begin(0, r[2], 1); /* returns to 200, where the interrupt comes */
    put_word(TEXT + 0x8000, TEXT + 0x200);
    deliver(TEXT + 0x200, 0x10, TEXT + 0x8008, false);
    begin(0, r[1], 1);
    begin(0, r[3], 1); /* ret 8 */
    put_word(TEXT + 0x8008, TEXT + 0x300);
    deliver(TEXT + 0x300, 0x10, TEXT + 0x8018, false);
    begin(0, r[1], 1);
    regs[VM_EFLAGS] = 0x246;
    begin(0, r[4], 1);
    begin(0, r[1], 0); /* jmp rax leads there by itself, with interrupts on */
    check("0 ran 0\n0 event intr ip=1 target=800 : cpl 0 mode 64 cr3 1000\n"
          "0 far iret ip=800 target=1 : cpl 0 mode 64 cr3 1000\n0 ran 800\n"
          "0 ret ip=1 target=200\n0 ran 1\n0 event intr ip=200 target=800 : cpl 0 mode 64 cr3 1000\n"
          "0 far iret ip=800 target=200 : cpl 0 mode 64 cr3 1000\n0 ran 800\n"
          "0 ret ip=200 target=300\n0 ran 200\n0 event intr ip=300 target=800 : cpl 0 mode 64 cr3 1000\n"
          "0 far iret ip=800 target=300 : cpl 0 mode 64 cr3 1000\n0 ran 800\n"
          "0 jmp* ip=300 target=800\n0 ran 300\n");
}

static void a_page_fault_right_behind_a_return_to_user_code(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "90"),
        at(HANDLER, "48cf"),
    };
    begin(0, r[0], 1); /* faults, so that it is known where events lead */
    deliver(TEXT, 0x10, TEXT + 0x8000, true);
    begin(0, r[1], 1);
    deliver(0x4000, 0x33, 0x7000, true); /* IRET came to 4000, which is not there */
    begin(0, r[1], 0);
    assert_non_null(strstr(told, "0 far iret ip=800 target=4000 : cpl 3 mode 64 cr3 1000\n0 ran 800\n"
                                 "0 event intr ip=4000 target=800 : cpl 0 mode 64 cr3 1000\n"));
}

static void code_of_32_bits(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "48cf"),
        at(0x2000, "40 eb00"),
        at(0x2003, "c3"),
        at(HANDLER, "90"),
    };
    begin(0, r[0], 1);
    regs[VM_CS] = 0x23;
    begin(0, r[1], 2); /* inc eax, which would be a prefix; jmp */
    begin(0, r[2], 1);
    put_word(0x7000, 0x2100);
    deliver(0x2100, 0x23, 0x7004, false);
    vm.entries[vm.entries_n++] = HANDLER;
    begin(0, r[3], 0);
    assert_non_null(strstr(told, "0 far iret target=2000 : cpl 3 mode 32 cr3 1000\n0 ran 0\n"));
    assert_non_null(strstr(told, "0 ran 2000\n0 jmp ip=2001 target=2003\n0 ran 2001\n"));
    assert_non_null(strstr(told, "0 ret ip=2003 target=2100\n0 ran 2003\n0 event intr ip=2100 target=800 : cpl 0 mode 64 cr3 1000\n"));
}

/* A string instruction's iterations, and what the emulator starts over, are one instruction. */
static void again_is_not_once_more(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "90 f3a4"),
        at(TEXT + 1, "f3a4"),
        at(TEXT + 3, "90"),
    };
    begin(0, r[0], 2);
    begin(0, r[1], 1);
    begin(0, r[1], 1);
    begin(0, r[2], 0);
    check("0 ran 0\n0 ran 1\n");
    assert_int_equal(vm.unexplained, 0);
}

static void address_spaces_are_those_of_cr3(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "0f22d8"),
        at(TEXT + 3, "48cf"),
        at(0x2000, "0f05"),
        at(TEXT + 8, "0f22d8"),
        at(TEXT + 11, "90"),
    };
    begin(0, r[0], 1);
    regs[VM_CR3] = UINT64_C(0x8000000000005003);
    begin(0, r[1], 1);
    regs[VM_CS] = 0x33;
    begin(0, r[2], 1);
    regs[VM_CS] = 0x10;
    begin(0, r[3], 1);
    regs[VM_CR3] = 0x5004; /* another PCID */
    begin(0, r[4], 0);
    check("0 mov-cr3 target=3 : cpl 0 mode 64 cr3 5003\n0 ran 0\nspace 2 is cr3 5000\n0 in space 2\n"
          "code of 2 at 2000 from the start\n"
          "0 far iret ip=3 target=2000 : cpl 3 mode 64 cr3 5003\n0 ran 3\n"
          "0 far syscall ip=2000 target=8 : cpl 0 mode 64 cr3 5003\n0 ran 2000\n"
          "0 mov-cr3 ip=8 target=b : cpl 0 mode 64 cr3 5004\n0 ran 8\n");
}

/* Code that is other than recorded: told again, and a PSB before the branch that leads there, on all processors. */
static void code_that_changes(void **state)
{
    (void)state;
    struct cofi__run *r[] = {at(TEXT, "ffe0"), at(TEXT + 0x40, "ffe0"), at(TEXT + 0x10, "ffe0")};
    begin(0, r[0], 1);
    begin(1, r[1], 1);
    begin(0, r[2], 1);
    struct cofi__run *changed = at(TEXT + 0x10, "ffe1");
    begin(0, changed, 1);
    begin(1, changed, 0);
    assert_non_null(strstr(told, "0 jmp* target=10\n0 ran 0\ncode of -1 (kernel) at 0 from now\n0 psb ip=10\n"
                                 "0 jmp* ip=10 target=10\n0 ran 10\n1 psb ip=40\n1 jmp* ip=40 target=10\n1 ran 40\n"));
}

static void a_run_over_two_pages(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "ffe0"),
        at(TEXT + 0xffe, "90 0f1f00"),
    };
    begin(0, r[0], 1);
    begin(0, r[1], 2);
    begin(0, r[1], 2);
    assert_non_null(strstr(told, "code of -1 (kernel) at 1000 from the start\n0 jmp* target=ffe\n"));
    assert_int_equal(vm.pages.n, 2);
}

/* QEMU empties its cache while a run is under way: what has begun is told, the last instruction when its end is known. */
static void a_run_that_is_freed(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(TEXT, "90 90 7410"),
        at(TEXT + 4, "90"),
    };
    begin(0, r[0], 3);
    cofi__vm_settle(&vm, 0, started[0]);
    cofi__vm_settle(&vm, 0, started[0]);
    free(r[0]);
    runs[0] = NULL;
    started[0] = 0;
    begin(0, r[1], 1);
    check("0 ran 0\n0 ran 1\n0 jcc ip=2 target=14\n0 ran 2\n");
}

static void a_part_of_the_run(void **state)
{
    (void)state;
    struct cofi__run *r[] = {
        at(0x7c00, "90 90"),
        at(TEXT, "90 ffe0"),
    };
    vm.skip = 5;
    vm.limit = 2;
    begin(0, r[0], 2); /* firmware */
    begin(0, r[1], 2);
    assert_false(vm.cpus[0]->begun);
    begin(0, r[1], 2);
    begin(0, r[1], 2);
    begin(0, r[1], 2);
    assert_true(vm.ended);
    check("0 ran 0\n0 jmp* ip=1\n0 ran 1\n0 boundary\n0 ends\n");
}

/* Its stack is not there. */
static void a_return_that_faults(void **state)
{
    (void)state;
    struct cofi__run *r[] = {at(TEXT, "90"), at(HANDLER, "48cf"), at(TEXT + 0x10, "c3")};
    begin(0, r[0], 1);
    deliver(TEXT, 0x10, TEXT + 0x8000, true);
    begin(0, r[1], 1);
    begin(0, r[2], 1);
    deliver(TEXT + 0x10, 0x10, TEXT + 0x8000, true);
    begin(0, r[1], 0);
    assert_non_null(strstr(told, "0 far iret ip=800 target=10 : cpl 0 mode 64 cr3 1000\n0 ran 800\n0 event fault ip=10 target=800"));
}

static void low_code_behind_another_cr3(void **state)
{
    (void)state;
    struct cofi__run *r[] = {at(TEXT, "90 e900000000"), at(0x3000, "0f22d8"), at(0x3003, "90")};
    begin(0, r[0], 2);
    begin(0, r[1], 1);
    regs[VM_CR3] = 0x7000;
    begin(0, r[2], 0);
    assert_non_null(strstr(told, "0 in space 2\ncode of 2 at 3000 from the start\n"));
}

/* What lies on the stack may be an older event's. */
static void an_old_frame_explains_nothing(void **state)
{
    (void)state;
    struct cofi__run *r[] = {at(TEXT, "90"), at(TEXT + 0x40, "90")};
    begin(0, r[0], 1);
    deliver(TEXT + 0x500, 0x10, TEXT + 0x8000, false);
    begin(0, r[1], 1);
    assert_int_equal(vm.unexplained, 1);
}

/* For units that watch each instruction (COFI_WANTS_INSN). */
static void every_instruction_if_it_is_wanted(void **state)
{
    (void)state;
    struct cofi__run *r[] = {at(TEXT, "90 90"), at(TEXT + 2, "90")};
    vm.every = true;
    begin(0, r[0], 2);
    begin(0, r[1], 0);
    check("0 insn target=1\n0 ran 0\n0 insn ip=1 target=2\n0 ran 1\n");
}

static void what_nothing_explains_is_counted(void **state)
{
    (void)state;
    begin(0, at(TEXT, "90"), 1);
    begin(0, at(TEXT + 0x40, "90"), 1); /* no event: nothing was pushed */
    assert_int_equal(vm.unexplained, 1);
}

static void add_page(struct cofi__pages *pages, int32_t space, uint64_t address, uint8_t fill)
{
    struct cofi__page *page;
    assert_int_equal(cofi__pages_look(pages, space, address, &fill, 1, &page), PAGE_NEW);
    memset(page->bytes, fill, PAGE_BYTES);
}

static void shows(struct cofi_view *view, uint64_t address, uint8_t fill)
{
    struct cofi_code code;
    assert_int_equal(cofi_view_find(view, address, &code), 0);
    assert_int_equal(code.bytes[address - code.start], fill);
}

static void the_kernels_pages_are_a_kcore(void **state)
{
    (void)state;
    struct cofi__pages pages = {0};
    struct cofi_error error;
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_code code;
    struct stat st;
    const char *tmp = getenv("TMPDIR");
    char folder[96], path[160], text[40] = "", command[128];
    snprintf(folder, sizeof folder, "%s/cofi-vm-%d", tmp ? tmp : "/tmp", (int)getpid());
    add_page(&pages, SPACE_KERNEL, TEXT + 0x5000, 3);
    add_page(&pages, SPACE_KERNEL, TEXT + 0x1000, 2);
    add_page(&pages, 1, 0x401000, 4);
    add_page(&pages, SPACE_KERNEL, TEXT, 1);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(cofi__kcore_write(&pages, TEXT, folder, &error), 0);
    snprintf(path, sizeof path, "%s/kcore_dir/kcore", folder);
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, path, 0, NULL), 0);
    assert_int_equal(cofi_view_open(&view, image), 0);
    shows(view, TEXT, 1);
    shows(view, TEXT + 0x1fff, 2);
    shows(view, TEXT + 0x5000, 3);
    assert_int_equal(cofi_view_find(view, TEXT + 0x2000, &code), COFI_ERR_NO_CODE);
    assert_int_equal(cofi_view_find(view, 0x401000, &code), COFI_ERR_NO_CODE);
    cofi_view_close(view);
    cofi_image_close(image);
    snprintf(path, sizeof path, "%s/kcore_dir/kallsyms", folder);
    FILE *file = fopen(path, "r");
    assert_true(file && fgets(text, sizeof text, file));
    assert_string_equal(text, "ffffffff81000000 T _text\n");
    fclose(file);
    snprintf(path, sizeof path, "%s/kcore_dir/modules", folder);
    assert_true(stat(path, &st) == 0 && st.st_size == 0);
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(cofi__kcore_write(&pages, TEXT, path, &error), COFI_ERR_IO);
    assert_non_null(strstr(error.text, "none/kcore_dir: No such file"));
    /* A full disk, as far as a limit of sizes is one: no part of a kernel stays. */
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){6000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(cofi__kcore_write(&pages, TEXT, folder, &error), COFI_ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    snprintf(path, sizeof path, "%s/kcore_dir/kcore", folder);
    assert_non_null(strstr(error.text, "kcore_dir/kcore: File too large"));
    assert_int_equal(stat(path, &st), -1);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    cofi__pages_free(&pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(branches_lead_where_the_next_run_begins), TEST(what_faults_has_not_run), TEST(an_interrupt_behind_an_indirect_branch),
        TEST(a_page_fault_right_behind_a_return_to_user_code), TEST(code_of_32_bits), TEST(again_is_not_once_more),
        TEST(address_spaces_are_those_of_cr3), TEST(code_that_changes), TEST(a_run_over_two_pages), TEST(a_run_that_is_freed),
        TEST(a_part_of_the_run), TEST(what_nothing_explains_is_counted),
        TEST(a_return_that_faults), TEST(low_code_behind_another_cr3), TEST(an_old_frame_explains_nothing),
        TEST(every_instruction_if_it_is_wanted),
        cmocka_unit_test(the_kernels_pages_are_a_kcore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

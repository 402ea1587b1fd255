/* SPDX-License-Identifier: MIT
 * Random programs under random configurations: perf script must show the instructions that ran while PacketEn was 1,
 * and the transfers between them. Each stream becomes a recording, its code ELF files that perf finds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cofi/trace.h>

#include "pt_bench.h"

enum { PID = 100, CODE_OFFSET = 0x1000, TEXT = 2, KERNEL_REGION = 1 };

struct judge {
    struct bench bench;
    char dir[96];
    uint64_t ips[BENCH_MOST];
    size_t n;
    struct bench_hop hops[BENCH_MOST];
    size_t hop_count;
    unsigned overflows;
    size_t compared_hops, lossy; /* of all seeds */
    char error[300]; /* perf's first complaint that is not about an overflow */
};

static const char *path_in(const struct judge *judge, const char *name)
{
    static char path[4][200];
    static unsigned next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", judge->dir, name);
    return path[next];
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- code: an ELF file for each region, at its address, with the symbol _text ---- */

static const char names[] = "\0_text\0.text\0.symtab\0.strtab";

#define WRITE_ELF(BITS, CLASS, MACHINE)                                                                               \
    static void write_elf##BITS(const char *path, const struct program_region *region)                                \
    {                                                                                                                 \
        static uint8_t file[CODE_OFFSET + PROGRAM_BYTES];                                                             \
        Elf##BITS##_Ehdr head = {.e_type = ET_EXEC, .e_machine = MACHINE, .e_version = 1,                             \
                                 .e_phoff = sizeof head, .e_ehsize = sizeof head,                                     \
                                 .e_phentsize = sizeof(Elf##BITS##_Phdr), .e_phnum = 1, .e_shoff = 0x400,             \
                                 .e_shentsize = sizeof(Elf##BITS##_Shdr), .e_shnum = 4, .e_shstrndx = 3};             \
        Elf##BITS##_Phdr load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = CODE_OFFSET,                  \
                                 .p_vaddr = (Elf##BITS##_Addr)region->base, .p_filesz = region->used,                 \
                                 .p_memsz = region->used, .p_align = 0x1000};                                         \
        Elf##BITS##_Sym symbols[2] = {{0}, {.st_name = 1, .st_shndx = TEXT, .st_size = region->used,                  \
                                            .st_info = ELF##BITS##_ST_INFO(STB_GLOBAL, STT_FUNC),                     \
                                            .st_value = (Elf##BITS##_Addr)region->base}};                             \
        Elf##BITS##_Shdr sections[4] = {                                                                              \
            {0},                                                                                                      \
            {.sh_type = SHT_SYMTAB, .sh_name = 13, .sh_offset = 0x200, .sh_size = sizeof symbols, .sh_link = 3,       \
             .sh_info = 1, .sh_entsize = sizeof *symbols, .sh_addralign = 8},                                         \
            {.sh_type = SHT_PROGBITS, .sh_name = 7, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,                            \
             .sh_addr = (Elf##BITS##_Addr)region->base, .sh_offset = CODE_OFFSET, .sh_size = region->used},           \
            {.sh_type = SHT_STRTAB, .sh_name = 21, .sh_offset = 0x300, .sh_size = sizeof names}};                     \
        memcpy(head.e_ident, ELFMAG, SELFMAG);                                                                        \
        head.e_ident[EI_CLASS] = CLASS;                                                                               \
        head.e_ident[EI_DATA] = ELFDATA2LSB;                                                                          \
        head.e_ident[EI_VERSION] = EV_CURRENT;                                                                        \
        memset(file, 0, sizeof file);                                                                                 \
        memcpy(file, &head, sizeof head);                                                                             \
        memcpy(file + sizeof head, &load, sizeof load);                                                               \
        memcpy(file + 0x200, symbols, sizeof symbols);                                                                \
        memcpy(file + 0x300, names, sizeof names);                                                                    \
        memcpy(file + 0x400, sections, sizeof sections);                                                              \
        memcpy(file + CODE_OFFSET, region->bytes, region->used);                                                      \
        write_file(path, file, sizeof file);                                                                          \
    }
WRITE_ELF(32, ELFCLASS32, EM_386)
WRITE_ELF(64, ELFCLASS64, EM_X86_64)

static const char *region_path(const struct judge *judge, unsigned i)
{
    char name[16];
    snprintf(name, sizeof name, "code%u", i);
    return path_in(judge, name);
}

static void write_code(const struct judge *judge)
{
    for (unsigned i = 0; i < PROGRAM_REGIONS; i++) {
        const struct program_region *region = &judge->bench.program.regions[i];
        if (region->mode == 64)
            write_elf64(region_path(judge, i), region);
        else
            write_elf32(region_path(judge, i), region);
    }
}

/* ---- the recording ---- */

static void put(struct cofi_writer *writer, struct cofi_sideband sideband)
{
    sideband.cpu = 0;
    sideband.time_ns = sideband.kind == COFI_SB_EXIT ? UINT64_C(1) << 40 : 1000;
    assert_int_equal(cofi_writer_sideband(writer, &sideband), 0);
}

/* The ranges as perf's filter text: in files, the kernel's by address. */
static void print_filter(const struct judge *judge, char *text, size_t n)
{
    text[0] = 0;
    for (unsigned i = 0; i < judge->bench.range_count; i++) {
        const struct bench_range *range = &judge->bench.ranges[i];
        unsigned r = 0;
        while (range->base - judge->bench.program.regions[r].base >= PROGRAM_BYTES)
            r++;
        uint64_t start = range->base - judge->bench.program.regions[r].base + CODE_OFFSET;
        size_t used = strlen(text);
        const char *separator = used ? "," : "", *action = range->stop ? "tracestop" : "filter";
        if (r == KERNEL_REGION)
            snprintf(text + used, n - used, "%s%s %#" PRIx64 "/%#" PRIx64, separator, action, range->base,
                     range->limit - range->base + 1);
        else
            snprintf(text + used, n - used, "%s%s %#" PRIx64 "/%#" PRIx64 "@%s", separator, action, start,
                     range->limit - range->base + 1, region_path(judge, r));
    }
}

static struct cofi_recording_info info_of(const struct judge *judge, const char *filter)
{
    uint32_t regs[4];
    assert_int_equal(cofi_unit_cpuid(judge->bench.rig.unit, 0x15, 0, regs), 0);
    uint64_t ctl = judge->bench.ctl;
    return (struct cofi_recording_info){
        .size = sizeof(struct cofi_recording_info), .gen = COFI_PT, .config = ctl, .family = 6, .model = 78, .stepping = 3,
        .vendor = "GenuineIntel", .command = "random", .filter = filter[0] ? filter : NULL,
        .time = {.conv = {.zero = 0, .mult = 1024, .shift = 10}, .tsc_num = regs[1], .tsc_den = regs[0],
                 .mtc_freq = (uint8_t)(ctl >> 14 & 15), .nominal_ratio = 24, .tsc = ctl & TSC_EN, .mtc = ctl & MTC_EN,
                 .cyc = ctl & CYC_EN}};
}

static void put_maps(const struct judge *judge, struct cofi_writer *writer)
{
    for (unsigned i = 0; i < PROGRAM_REGIONS; i++) {
        const struct program_region *region = &judge->bench.program.regions[i];
        struct cofi_sideband map = {.kind = COFI_SB_MMAP, .pid = PID, .tid = PID, .addr = region->base, .len = PROGRAM_BYTES,
                                    .pgoff = CODE_OFFSET, .prot = 5, .flags = 2, .name = region_path(judge, i)};
        if (i == KERNEL_REGION) {
            map.pid = -1;
            map.tid = 0;
            map.kernel = true;
            map.pgoff = region->base;
            map.len = 0x1000000;
            map.name = "[kernel.kallsyms]_text";
        }
        put(writer, map);
    }
}

static void write_recording(const struct judge *judge)
{
    struct cofi_writer *writer;
    struct cofi_error error = {0};
    char filter[1200];
    print_filter(judge, filter, sizeof filter);
    struct cofi_recording_info info = info_of(judge, filter);
    if (cofi_writer_open(&writer, path_in(judge, "data"), &info, &error) < 0)
        fail_msg("%s", error.text);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = PID, .tid = PID, .ppid = 1, .ptid = 1});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = PID, .tid = PID, .name = "random", .exec = true});
    put_maps(judge, writer);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_ITRACE_START, .pid = PID, .tid = PID});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH, .pid = PID, .tid = PID});
    assert_int_equal(cofi_writer_trace(writer, PID, PID, judge->bench.rig.bytes, judge->bench.rig.size, 2000), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_EXIT, .pid = PID, .tid = PID, .ppid = 1, .ptid = 1});
    assert_int_equal(cofi_writer_close(writer, &error), 0);
}

/* ---- perf ---- */

/* Of errors, overflows and the sum at the end are no news. */
static void take_error(struct judge *judge, const char *line)
{
    bool overflow = strstr(line, "Overflow packet"), sum = strstr(line, "instruction trace errors");
    bool error = strstr(line, "error") || strstr(line, "ailed") || strstr(line, "nvalid");
    judge->overflows += overflow;
    if (error && !overflow && !sum && !judge->error[0])
        snprintf(judge->error, sizeof judge->error, "%.250s", line);
}

/* "[flags] ip => addr" or "ip", from perf's -F flags,ip,addr. */
static void take_line(struct judge *judge, const char *line, bool branches)
{
    uint64_t from, to;
    const char *arrow = strstr(line, " => ");
    if (strstr(line, "error"))
        take_error(judge, line);
    else if (branches && arrow) {
        const char *start = arrow;
        while (start > line && start[-1] != ' ')
            start--;
        bool edge = strstr(line, "tr strt") || strstr(line, "tr end");
        if (!edge && sscanf(start, "%" SCNx64 " => %" SCNx64, &from, &to) == 2 && judge->hop_count < BENCH_MOST)
            judge->hops[judge->hop_count++] = (struct bench_hop){from, to};
    } else if (!branches && sscanf(line, "%" SCNx64, &from) == 1 && judge->n < BENCH_MOST) {
        judge->ips[judge->n++] = from;
    }
}

static void run_perf(struct judge *judge, bool branches)
{
    char command[700], line[1000];
    snprintf(command, sizeof command, "perf script -i %s --vmlinux=%s --itrace=%s -F %s 2>%s", path_in(judge, "data"),
             region_path(judge, KERNEL_REGION), branches ? "be" : "i0nse", branches ? "flags,ip,addr" : "ip",
             path_in(judge, "errors"));
    FILE *perf = popen(command, "r");
    assert_non_null(perf);
    while (fgets(line, sizeof line, perf))
        take_line(judge, line, branches);
    assert_int_equal(pclose(perf), 0);
    FILE *errors = fopen(path_in(judge, "errors"), "r");
    assert_non_null(errors);
    while (fgets(line, sizeof line, errors))
        take_error(judge, line);
    fclose(errors);
}

/* The addresses of software interrupts: the trace does not tell that they ran, perf shows some. */
static bool is_soft(const struct judge *judge, uint64_t ip)
{
    uint8_t code = 0;
    return program_read(&judge->bench.program, ip, &code, 1) && (code == 0xcd || code == 0xcc);
}

static size_t drop_soft(const struct judge *judge, uint64_t *ips, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_soft(judge, ips[i]))
            ips[kept++] = ips[i];
    return kept;
}

static void fail_with(const struct judge *judge, uint64_t seed, const char *what, size_t i)
{
    const char *keep = getenv("COFI_SAVE");
    char command[300];
    snprintf(command, sizeof command, "cp -r %s %s", judge->dir, keep ? keep : "");
    if (keep && system(command) != 0)
        fprintf(stderr, "cannot copy to %s\n", keep);
    fail_msg("seed %" PRIu64 ", ctl %" PRIx64 " on %s: %s, the %zuth: ran %" PRIx64 ", perf %" PRIx64
             "; hop %" PRIx64 " => %" PRIx64 ", perf %" PRIx64 " => %" PRIx64 "; %s",
             seed, judge->bench.ctl, judge->bench.model, what, i, judge->bench.truth[i], judge->ips[i],
             judge->bench.hops[i].from, judge->bench.hops[i].to, judge->hops[i].from, judge->hops[i].to, judge->error);
}

/* perf names the target in the place of a conditional branch that leaves the filter, docs/decisions/0310. */
static void name_targets(struct bench *bench)
{
    for (size_t i = 0; i < bench->left; i++)
        if (bench->leaves[i].how == COFI_EV_JCC)
            bench->truth[bench->leaves[i].at] = bench->leaves[i].target;
}

/* Packets were lost: what perf shows ran in this order. */
static void compare_pieces(const struct judge *judge, uint64_t seed)
{
    size_t at = 0;
    for (size_t i = 0; i < judge->n; i++, at++) {
        while (at < judge->bench.ran && judge->bench.truth[at] != judge->ips[i])
            at++;
        if (at == judge->bench.ran)
            fail_with(judge, seed, "instructions that did not run", i);
    }
}

static void compare(struct judge *judge, uint64_t seed)
{
    struct bench *bench = &judge->bench;
    name_targets(bench);
    size_t i = 0;
    if (judge->error[0])
        fail_with(judge, seed, "perf has errors", 0);
    judge->n = drop_soft(judge, judge->ips, judge->n);
    bench->ran = drop_soft(judge, bench->truth, bench->ran);
    if (judge->overflows) {
        compare_pieces(judge, seed);
        return;
    }
    while (i < bench->ran && i < judge->n && bench->truth[i] == judge->ips[i])
        i++;
    if (i < bench->ran || i < judge->n)
        fail_with(judge, seed, "other instructions", i);
    for (i = 0; i < bench->hop_count && i < judge->hop_count; i++)
        if (bench->hops[i].from != judge->hops[i].from || bench->hops[i].to != judge->hops[i].to)
            fail_with(judge, seed, "other branches", i);
    if (bench->hop_count != judge->hop_count)
        fail_with(judge, seed, "more or fewer branches", i);
}

static void one(struct judge *judge, uint64_t seed)
{
    judge->n = judge->hop_count = judge->overflows = 0;
    judge->error[0] = 0;
    bench_run(&judge->bench, seed, 4000, (struct bench_wish){.wide = true, .for_perf = true});
    write_code(judge);
    write_recording(judge);
    run_perf(judge, false);
    run_perf(judge, true);
    judge->compared_hops += judge->hop_count;
    judge->lossy += judge->overflows > 0;
    compare(judge, seed);
    rig_close(&judge->bench.rig);
}

static void perf_shows_the_instructions_and_branches_that_ran(void **state)
{
    (void)state;
    struct judge *judge = calloc(1, sizeof *judge);
    const char *tmp = getenv("TMPDIR"), *seed = getenv("COFI_SEED"), *count = getenv("COFI_COUNT");
    char command[128];
    snprintf(judge->dir, sizeof judge->dir, "%s/cofi-perf-%d", tmp ? tmp : "/tmp", (int)getpid());
    assert_int_equal(mkdir(judge->dir, 0700), 0);
    setenv("PERF_BUILDID_DIR", judge->dir, 1);
    uint64_t first = seed ? strtoull(seed, NULL, 0) : 1, n = count ? strtoull(count, NULL, 0) : 60;
    for (uint64_t i = first; i < first + n; i++)
        one(judge, i);
    print_message("# %zu transfers, %zu streams with overflows\n", judge->compared_hops, judge->lossy);
    assert_true(count || (judge->compared_hops > 5000 && judge->lossy >= 3));
    snprintf(command, sizeof command, "rm -rf %s", judge->dir);
    assert_int_equal(system(command), 0);
    free(judge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(perf_shows_the_instructions_and_branches_that_ran)};
    if (system("perf version >/dev/null 2>&1") != 0) {
        puts("1..1\nok 1 - perf_shows_the_instructions_and_branches_that_ran # SKIP no perf here");
        return 0;
    }
    return cmocka_run_group_tests_name("random programs under PT, by perf", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Bytes -> an ELF file, mapped, also as a kernel's module, and asked for code, symbols and lines everywhere, and for
 * all of its functions and lines, of which some ran. */
#include <sys/mman.h>
#include <unistd.h>

#include <cofi/analyze.h>
#include <cofi/image.h>
#include <cofi/insn.h>
#include <cofi/present.h>

#include "fuzz.h"
#include "image/file.h"
#include "image/image.h"
#include "image/module.h"

static bool find(void *opaque, const char *depends, const char *name, uint64_t *addr)
{
    (void)opaque;
    *addr = 0x60000000;
    return name[0] == depends[0];
}

static void ask(struct cofi_view *view, uint64_t base, size_t n)
{
    for (uint64_t i = 0; i < n + 0x2000; i += 61) {
        struct cofi_code code;
        struct cofi_symbol symbol;
        volatile uint8_t byte;
        if (cofi_view_find(view, base + i, &code) == 0) {
            MUST(code.start <= base + i && base + i < code.end);
            byte = code.bytes[base + i - code.start];
            (void)byte;
        }
        if (i % 4 == 0)
            cofi_view_symbol(view, base + i, i % 16 == 0, &symbol);
    }
}

static int function(void *opaque, const struct cofi_module_function *told)
{
    uint64_t *last = opaque;
    MUST(told->addr >= *last); /* in order */
    *last = told->addr;
    return 0;
}

static int line(void *opaque, const struct cofi_module_line *told)
{
    (void)opaque;
    MUST(told->start <= told->end && told->line > 0 && *told->file);
    return 0;
}

static int scope(void *opaque, const struct cofi_module_scope *told)
{
    uint32_t *last = opaque;
    MUST(told->start < told->end && told->outer < told->number && told->number >= *last);
    *last = told->number;
    return 0;
}

static int put_nowhere(void *opaque, const char *bytes, size_t n)
{
    (void)opaque;
    MUST(n && bytes[n - 1] == '\n');
    return 0;
}

static int put_anything(void *opaque, const char *bytes, size_t n)
{
    (void)opaque, (void)bytes;
    MUST(n);
    return 0;
}

/* All that there were are told. */
static void ask_targets(const struct cofi_coverage *coverage, uint64_t jumps)
{
    size_t n;
    uint64_t led = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < modules[i].targets_n; k++)
            led += modules[i].targets[k].count;
        MUST(cofi_coverage_bolt(&modules[i], put_nowhere, NULL) == 0);
    }
    MUST(led == jumps);
}

/* All that the module at an address has; and some of its bytes ran, each a jump to the next. */
static void cover(struct cofi_view *view, uint64_t base, size_t n)
{
    struct cofi_coverage_options options = {.size = sizeof options, .names = true, .lines = true, .ways = true, .scopes = true};
    struct cofi_coverage *coverage;
    uint64_t own, last = 0;
    uint64_t jumps = 0;
    size_t sources;
    uint32_t number = 0;
    const struct cofi_module *module = cofi_view_module(view, base, &own);
    if (!module)
        return;
    cofi_module_functions(module, function, &last);
    cofi_module_lines(module, line, NULL);
    cofi_module_scopes(module, scope, &number);
    MUST(cofi_coverage_open(&coverage, &options) == 0);
    for (uint64_t i = 0; i < n; i += 97, jumps++) {
        const struct cofi_flow_insn insn = {.ip = base + i, .length = 7, .mode = 64};
        const struct cofi_flow_block block = {.ip = insn.ip, .end = insn.ip + 7, .insns = &insn, .n = 1, .id = (uint32_t)(i / 97),
                                              .cls = COFI_CLASS_JMP_IND}, *blocks = &block;
        MUST(cofi_coverage_blocks(coverage, view, &blocks, 1) == 0);
    }
    MUST(cofi_coverage_learn(coverage) == 0 && cofi_coverage_finish(coverage) == 0);
    ask_targets(coverage, jumps ? jumps - 1 : 0);
    MUST(cofi_coverage_afdo(coverage, put_anything, NULL) == 0 && cofi_coverage_afdo_gcc(coverage, put_anything, NULL) == 0);
    cofi_coverage_sources(coverage, &sources);
    cofi_coverage_close(coverage);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi__module module = {0x60000000, find, NULL};
    char path[64];
    int fd = memfd_create("image", 0);
    MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(cofi_image_open(&image) == 0);
    cofi_image_map_elf(image, 0, path, 0, NULL);
    cofi_image_map_elf(image, 1, path, 0x10000000, NULL);
    cofi_image_map_elf_at(image, 1, path, 0x70000000, NULL);
    cofi_image_map_pe_at(image, 1, path, 0x70000000, NULL);
    cofi_image_map_bytes(image, 2, 0x40000000, bytes, n, "bytes");
    cofi_image_map_file(image, 3, 0x50000000, n + 100, path, 0, NULL, 0);
    struct cofi__source *source = cofi__store_module(image->stores[0], path, NULL, NULL, 0, &module);
    MUST(source && cofi__image_add(image, 4, module.addr, n + 100, source, 0) == 0);
    MUST(cofi_view_open(&view, image) == 0);
    MUST(cofi_view_advance(view, 10, NULL, NULL) >= 0);
    ask(view, 0, n);
    ask(view, 0x10000000, n);
    ask(view, 0x40000000, n);
    ask(view, 0x50000000, n);
    ask(view, module.addr, n);
    cover(view, 0, n);
    cover(view, 0x400000, n);
    cover(view, 0x10000000, n);
    cover(view, 0x40000000, n);
    cover(view, 0x50000000, n);
    cover(view, module.addr, n);
    cofi_view_close(view);
    cofi_image_close(image);
    close(fd);
    return 0;
}

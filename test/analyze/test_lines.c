/* SPDX-License-Identifier: MIT
 * Lines of blocks: kept until they are forgotten, and made anew then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>
#include <cofi/image.h>
#include <cofi/insn.h>
#include <cofi/present.h>

enum { BASE = 0x1000, BLOCKS = 40000 };

/* A RET at an address of its own. */
static struct cofi_flow_block block_of(const struct cofi_flow_insn *insn, uint32_t id)
{
    return (struct cofi_flow_block){.ip = insn->ip, .end = insn->ip + 1, .insns = insn, .n = 1, .id = id, .mode = 64,
                                    .cls = COFI_CLASS_RET};
}

static void assert_line(struct cofi_lines *lines, struct cofi_view *view, uint32_t id, const char *name)
{
    static struct cofi_flow_insn insns[BLOCKS];
    static struct cofi_flow_block blocks[BLOCKS];
    char expected[64];
    size_t n;
    insns[id] = (struct cofi_flow_insn){.ip = BASE + id, .length = 1, .cls = COFI_CLASS_RET, .mode = 64, .block = id};
    blocks[id] = block_of(&insns[id], id);
    const char *line = cofi_lines_block(lines, view, &blocks[id], &n, NULL);
    assert_non_null(line);
    int wanted = snprintf(expected, sizeof expected, "%016x  %s+0x%x ", BASE + id, name, id);
    assert_true(n > (size_t)wanted && line[n - 1] == '\n');
    assert_memory_equal(line, expected, (size_t)wanted);
}

static void lines_are_made_anew_where_code_changed(void **state)
{
    (void)state;
    static uint8_t code[BLOCKS];
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_lines *lines;
    memset(code, 0xc3, sizeof code);
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, BASE, code, sizeof code, "old"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 1, BASE, code, sizeof code, "new"), 0);
    assert_int_equal(cofi_view_open(&view, image), 0);
    assert_int_equal(cofi_lines_open(&lines, COFI_LINES_TEXT, 1, 0), 0);
    for (uint32_t id = 1; id < BLOCKS; id++) /* more than are kept */
        assert_line(lines, view, id, "old");
    assert_int_equal(cofi_view_advance(view, 1, NULL, NULL), 0);
    assert_line(lines, view, BLOCKS - 1, "old"); /* kept */
    cofi_lines_forget(lines);
    assert_line(lines, view, BLOCKS - 1, "new");
    for (uint32_t id = 1; id < BLOCKS; id++)
        assert_line(lines, view, id, "new");
    cofi_lines_close(lines);
    cofi_view_close(view);
    cofi_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_made_anew_where_code_changed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

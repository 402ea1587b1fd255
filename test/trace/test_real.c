/* SPDX-License-Identifier: MIT
 * What perf wrote on a processor with Intel PT, where that file is (it is not in this tree). */
#include "sample.h"

#include "../packet/real_data.h"

static char path[1024];

static void a_recording_of_real_hardware_has_the_counts_that_perf_prints(void **state)
{
    (void)state;
    struct cofi_recording *recording;
    const struct cofi_sideband *sb;
    size_t counts[COFI_SB_TEXT_POKE + 1] = {0};
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_null(cofi_recording_warning(recording, 0));
    uint64_t last = 0;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) {
        counts[sb->kind]++;
        assert_true(sb->time_ns >= last);
        last = sb->time_ns;
    }
    assert_int_equal(counts[COFI_SB_AUX], 10);
    assert_int_equal(counts[COFI_SB_COMM], 3);
    assert_int_equal(counts[COFI_SB_EXIT], 1);
    assert_int_equal(counts[COFI_SB_ITRACE_START], 2);
    assert_int_equal(counts[COFI_SB_MMAP], 66);
    assert_int_equal(counts[COFI_SB_SWITCH_CPU], 152);
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    assert_int_equal(info->family, 6);
    assert_int_equal(info->model, 78);
    assert_int_equal(info->stepping, 3);
    assert_string_equal(info->vendor, "GenuineIntel");
    assert_non_null(strstr(info->command, "perf record -e cycles -e intel_pt//"));
    assert_true(info->per_cpu);
    assert_true(info->time.tsc && info->time.mtc && !info->time.cyc);
    assert_int_equal(info->time.mtc_freq, 3);
    assert_int_equal(info->config & 0xc, 0xc); /* kernel and user */
    assert_int_equal(cofi_recording_streams(recording), 2);
    assert_int_equal(cofi_recording_stream(recording, 0)->cpu, 0);
    assert_int_equal(cofi_recording_stream(recording, 1)->cpu, 3);
    assert_int_equal(cofi_recording_stream(recording, 0)->bytes, 0x2fd0);
    assert_int_equal(cofi_recording_stream(recording, 1)->bytes, 137728);
    assert_string_equal(cofi_recording_comm(recording, 3174, UINT64_MAX), "echo");
    assert_non_null(cofi_recording_image(recording, 3174));
    cofi_recording_close(recording);
}

int main(void)
{
    if (!real_data_path(path)) {
        puts("1..0 # SKIP no perf.data.intel_pt-4.14: set COFI_DATA to its folder");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_of_real_hardware_has_the_counts_that_perf_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Bytes -> a recording, opened and asked everything. */
#include <sys/mman.h>
#include <unistd.h>

#include <cofi/trace.h>

#include "fuzz.h"

static void ask_streams(const struct cofi_recording *recording)
{
    for (size_t i = 0; i < cofi_recording_streams(recording); i++) {
        const struct cofi_recording_stream *stream = cofi_recording_stream(recording, i);
        uint64_t at = 0;
        volatile uint8_t sum = 0;
        for (size_t n; ; at += n) {
            const uint8_t *bytes = cofi_recording_bytes(recording, i, at, &n);
            if (!n)
                break;
            MUST(cofi_recording_file_offset(recording, i, at) != UINT64_MAX);
            for (size_t k = 0; k < n; k++)
                sum = (uint8_t)(sum + bytes[k]);
        }
        MUST(at == stream->bytes);
    }
}

static void ask_sideband(struct cofi_recording *recording)
{
    const struct cofi_sideband *sb;
    uint64_t last = 0;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) {
        const struct cofi_image *image = cofi_recording_image(recording, sb->pid);
        struct cofi_view *view;
        struct cofi_code code;
        struct cofi_symbol symbol;
        MUST(sb->time_ns >= last);
        last = sb->time_ns;
        cofi_recording_comm(recording, sb->tid, sb->time_ns);
        if (i > 64 || !image || cofi_view_open(&view, image) < 0)
            continue;
        cofi_view_advance(view, sb->time_ns, NULL, NULL);
        if (!cofi_view_find(view, sb->addr, &code))
            MUST(code.start <= sb->addr && sb->addr < code.end);
        cofi_view_symbol(view, sb->addr, true, &symbol);
        cofi_view_close(view);
    }
}

/* What streams show, in the host and in guests, from first to last. */
static void ask_images(struct cofi_recording *recording)
{
    for (size_t i = 0; i < cofi_recording_streams(recording) && i < 32; i++) {
        const struct cofi_image *images[] = {cofi_recording_stream_image(recording, i),
                                             cofi_recording_guest_image(recording, i)};
        for (size_t k = 0; k < 2; k++) {
            struct cofi_view *view;
            struct cofi_code code;
            MUST(images[k]);
            if (cofi_view_open(&view, images[k]) < 0)
                continue;
            for (int turns = 0; turns < 64 && cofi_view_next_change(view) != UINT64_MAX; turns++) {
                cofi_view_advance(view, cofi_view_next_change(view), NULL, NULL);
                cofi_view_find(view, UINT64_C(0xffffffff81000010), &code);
                cofi_view_find(view, 0x401000, &code);
            }
            cofi_view_close(view);
        }
    }
}

static void ask_bounds(struct cofi_recording *recording)
{
    for (size_t i = 0; i < cofi_recording_streams(recording) && i < 32; i++) {
        const struct cofi_time_bound *bounds;
        size_t n;
        MUST(cofi_recording_bounds(recording, i, &bounds, &n) == 0);
        for (size_t k = 1; k < n; k++)
            MUST(bounds[k].offset > bounds[k - 1].offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct cofi_recording *recording;
    struct cofi_error error;
    char path[64];
    int fd = memfd_create("recording", 0);
    MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (cofi_recording_open(&recording, path, &error) >= 0) {
        ask_streams(recording);
        ask_sideband(recording);
        ask_images(recording);
        ask_bounds(recording);
        for (size_t i = 0; cofi_recording_warning(recording, i); i++)
            MUST(i < 1000);
        cofi_recording_close(recording);
    }
    close(fd);
    return 0;
}

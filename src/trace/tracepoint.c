/* SPDX-License-Identifier: MIT
 * Samples of sched:sched_switch -> which thread a processor ran (kernels before 4.3 have no switch records). */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

/* Where next_pid is in the event's bytes since it exists, where the recording does not say. */
enum { NEXT_PID = 56 };

/* The number behind a word, from `at` up to the next empty line. */
static bool number_behind(const char *at, const char *end, const char *word, uint64_t *number)
{
    size_t n = strlen(word);
    const char *found = memmem(at, (size_t)(end - at), word, n);
    if (!found)
        return false;
    *number = 0;
    for (found += n; found < end && *found >= '0' && *found <= '9'; found++)
        *number = *number * 10 + (uint64_t)(*found - '0');
    return true;
}

/* The kernel's descriptions of the recorded events, as text among other data. */
void cofi__read_tracing_data(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n)
{
    static const char name[] = "name: sched_switch\n";
    enum { DESCRIPTION_MAX = 4096 };
    const uint8_t *found = memmem(bytes, n, name, sizeof name - 1);
    if (!found)
        return;
    uint64_t left = n - (uint64_t)(found - bytes), id, offset;
    const char *at = (const char *)found, *end = at + (left < DESCRIPTION_MAX ? left : DESCRIPTION_MAX);
    if (number_behind(at, end, "ID: ", &id) && number_behind(at, end, "pid_t next_pid;\toffset:", &offset)) {
        recording->switch_event = id;
        recording->switch_offset = (uint32_t)offset;
    }
}

/* n, the size of an event; each: the event, its ids' number, its name, its ids. */
void cofi__read_event_desc(struct cofi_recording *recording, const uint8_t *bytes, uint64_t n)
{
    static const char name[] = "sched:sched_switch";
    if (n < 8)
        return;
    uint64_t events = le32(bytes), size = le32(bytes + 4), at = 8;
    for (; events && size >= ATTR_BYTES_MIN && size <= n - at && n - at - size >= 8; events--) {
        const uint8_t *attr = bytes + at;
        uint64_t ids = le32(attr + size), length = le32(attr + size + 4);
        at += size + 8;
        if (length > n - at || ids > (n - at - length) / 8)
            return;
        if (length >= sizeof name && !memcmp(bytes + at, name, sizeof name) && !recording->switch_offset) {
            recording->switch_event = le64(attr + ATTR_CONFIG);
            recording->switch_offset = NEXT_PID;
        }
        at += length + 8 * ids;
    }
}

bool cofi__is_switch(const struct cofi_recording *recording, const struct cofi__event_attr *attr)
{
    return attr->type == TYPE_TRACEPOINT && recording->switch_offset && attr->config == recording->switch_event;
}

void cofi__add_switch(struct cofi_recording *recording, const struct cofi__switch *s, const uint8_t *raw, size_t n)
{
    if (recording->switch_offset > n || n - recording->switch_offset < 4)
        return;
    struct cofi_sideband *row = cofi__vector_push(&recording->sideband);
    if (row)
        *row = (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = s->cpu, .time_ns = s->time_ns, .vcpu = -1,
                                      .pid = -1, .tid = (int32_t)le32(raw + recording->switch_offset), .ppid = s->pid,
                                      .ptid = s->tid};
}

/* SPDX-License-Identifier: MIT
 * What threads tell beside their logs, in the ring of their slot: notes -> sideband. */
#include "host/fast/collect.h"
#include "host/names.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Of a child in another namespace its parent is known by the slot that it had, else by what the kernel says. */
static void take_fork(struct cofi__fast_collector *c, const struct thread *t, const struct cofi__fast_seat *seat,
                      const struct cofi__fast_note_head *h)
{
    struct cofi_sideband sb = {.kind = COFI_SB_FORK, .pid = h->pid, .tid = h->tid, .ppid = (int32_t)h->a,
                               .ptid = (int32_t)h->b};
    uint32_t index = cofi__fast_maker(c, t);
    const struct cofi__fast_seat *maker = &c->seats[index];
    if (t->head.nested && seat->maker_pid)
        sb.ppid = seat->maker_pid, sb.ptid = seat->maker_tid;
    else if (t->head.nested && maker->placed && cofi__fast_slot(c, index)->head.tid == (int32_t)h->b)
        sb.ppid = maker->pid, sb.ptid = maker->tid;
    else if (t->head.nested)
        sb.ppid = sb.ptid = h->pid == h->tid ? seat->parent : h->pid;
    cofi__fast_sideband(c, &sb, h->tsc);
    sb = (struct cofi_sideband){.kind = COFI_SB_ITRACE_START, .pid = h->pid, .tid = h->tid};
    cofi__fast_sideband(c, &sb, h->tsc);
}

/* The thread's process has another name for a file than we do. It waits a moment. False: the file is
 * none to look at. */
static bool look_for(struct cofi__fast_collector *c, const struct cofi__fast_note_head *h, char name[COFI__NAME_BYTES])
{
    uint64_t mapping = cofi__fast_mapping(h->d >> COFI__FAST_ORIGIN_SHIFT, h->a, h->b);
    bool hidden = cofi__namespaces_hide(&c->namespaces, h->pid, COFI__NO_DEVICE, name);
    if (hidden) {
        char root[32];
        size_t n = (size_t)snprintf(root, sizeof root, "/proc/%d/root", (int)h->pid), bytes = strlen(name) + 1;
        if (n + bytes <= COFI__NAME_BYTES)
            memcpy((char *)memmove(name + n, name, bytes) - n, root, n);
    } else if (cofi__name_for_us(&c->namespaces, &(struct cofi__mapped){h->pid, h->a, h->b, h->c}, name) ==
               COFI__FOUND) {
        cofi__fast_keep_error(c, cofi__map_put(&c->files, h->a, mapping, 1));
    }
    return !hidden;
}

/* Whether a plain name leads to what the program's led to. What was served may have been unmounted since. */
static bool lies_on(uint32_t device, const char *name)
{
    struct stat file;
    return !stat(name, &file) && !major(file.st_dev) && minor(file.st_dev) == device;
}

/* Whether the mapping's file is none to look at. Else its code is what the file has, and other files
 * there need not be asked about. */
static bool is_served(struct cofi__fast_collector *c, const struct cofi__fast_note_head *h, const char *name)
{
    uint32_t device = (uint32_t)h->d >> COFI__FAST_DEVICE_SHIFT, *plain = c->control->plain,
             *end = plain + COFI__FAST_DEVICES;
    if (cofi__namespaces_serve(&c->namespaces, device, name) || !lies_on(device, name))
        return true;
    while (plain < end && *plain && *plain != device)
        plain++;
    if (plain < end)
        __atomic_store_n(plain, device, __ATOMIC_RELAXED);
    if (!(h->d & COFI__FAST_YOUNG))
        cofi__fast_keep_error(c, cofi__map_put(&c->files, h->a,
                                               cofi__fast_mapping(h->d >> COFI__FAST_ORIGIN_SHIFT, h->a, h->b), 1));
    return false;
}

/* Code of a thread's process, and of its parent where it shares that one's memory. */
static void tell_code(struct cofi__fast_collector *c, const struct thread *t, const struct cofi__fast_seat *seat,
                      struct cofi_sideband *sb, uint64_t tsc)
{
    const struct cofi__fast_seat *maker = &c->seats[cofi__fast_maker(c, t)];
    cofi__fast_sideband(c, sb, tsc);
    sb->pid = seat->maker_pid ? seat->maker_pid : maker->pid;
    sb->tid = seat->maker_pid ? seat->maker_tid : maker->tid;
    if (t->head.vfork && sb->pid)
        cofi__fast_sideband(c, sb, tsc);
}

static void take_name(const uint8_t *bytes, size_t n, char name[COFI__NAME_BYTES])
{
    n = n < COFI__NAME_BYTES ? n : COFI__NAME_BYTES - 1;
    memcpy(name, bytes, n);
    name[n] = 0;
}

/* Our number of a thread of the process that calls it so; 0: it is none that is known. */
static int32_t named(const struct cofi__fast_collector *c, const struct thread *t, const struct cofi__fast_seat *seat,
                     int32_t tid)
{
    if (!t->head.nested)
        return tid;
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].placed && c->seats[i].pid == seat->pid && cofi__fast_slot(c, i)->head.tid == tid)
            return c->seats[i].tid;
    return 0;
}

/* h has the numbers of the seat. */
static void take_note(struct cofi__fast_collector *c, struct thread *t, const struct cofi__fast_seat *seat,
                      const struct cofi__fast_note_head *h, const uint8_t *bytes)
{
    char name[COFI__NAME_BYTES];
    struct cofi_sideband sb = {.pid = h->pid, .tid = h->tid, .addr = h->a};
    switch ((enum cofi__fast_note)h->kind) {
    case COFI__FAST_NOTE_MAP:
        take_name(bytes, h->bytes, name);
        if (h->d & COFI__FAST_ELSEWHERE ? !look_for(c, h, name) : h->d & COFI__FAST_SERVED && is_served(c, h, name))
            sb.build_id_size = COFI_NO_BUILD_ID;
        sb.kind = COFI_SB_MMAP;
        sb.len = h->b - h->a;
        sb.pgoff = h->c;
        sb.prot = h->d & (PROT_READ | PROT_WRITE | PROT_EXEC);
        sb.flags = MAP_PRIVATE;
        sb.name = name;
        tell_code(c, t, seat, &sb, h->tsc);
        break;
    case COFI__FAST_NOTE_CODE:
        if (h->b && cofi__map_get(&c->files, h->c, h->d))
            break; /* its file has it */
        sb.kind = COFI_SB_CODE;
        sb.bytes = bytes;
        sb.len = h->bytes < COFI__FAST_CODE_PIECE ? h->bytes : COFI__FAST_CODE_PIECE;
        sb.ahead = h->bytes - sb.len;
        tell_code(c, t, seat, &sb, h->tsc);
        break;
    case COFI__FAST_NOTE_FORK: take_fork(c, t, seat, h); break;
    case COFI__FAST_NOTE_TRIGGER:
        t->head.asks = 1;
        c->triggered = true;
        break;
    case COFI__FAST_NOTE_EXIT:
        sb.kind = COFI_SB_EXIT;
        cofi__fast_sideband(c, &sb, h->tsc);
        break;
    case COFI__FAST_NOTE_COMM:
        take_name(bytes, h->bytes, name);
        sb.kind = COFI_SB_COMM;
        sb.name = name;
        sb.tid = h->a ? named(c, t, seat, (int32_t)h->a) : h->tid;
        if (sb.tid)
            cofi__fast_sideband(c, &sb, h->tsc);
        break;
    case COFI__FAST_NOTE_EXEC: cofi__fast_follow_exec(c, t, h->pid, h->tid); break;
    case COFI__FAST_NOTE_EXEC_FAILED: cofi__fast_exec_failed(c, t, h->tid); break;
    case COFI__FAST_NOTE_LOST:
    case COFI__FAST_NOTE_SKIP: break;
    }
}

static void copy_out(void *to, const struct thread *t, uint64_t at, size_t n)
{
    const uint8_t *ring = (const uint8_t *)t + COFI__FAST_SLOT_NOTES;
    uint64_t start = at % COFI__FAST_NOTES_BYTES, left = COFI__FAST_NOTES_BYTES - start, first = n < left ? n : left;
    memcpy(to, ring + start, first);
    memcpy((uint8_t *)to + first, ring, n - first);
}

/* False: the program has written over it. */
static bool copy_note(const struct thread *t, uint64_t tail, uint64_t head, struct cofi__fast_note_head *h,
                      uint8_t bytes[COFI__FAST_NOTE_MOST])
{
    copy_out(h, t, tail, sizeof *h);
    if (head - tail > COFI__FAST_NOTES_BYTES || h->size > head - tail || h->bytes > COFI__FAST_NOTE_MOST ||
        h->size < sizeof *h + h->bytes)
        return false;
    copy_out(bytes, t, tail + sizeof *h, h->bytes);
    return true;
}

/* The thread waits for files that are to be looked for. */
static void tell_looked(struct thread *t, const struct cofi__fast_note_head *h, uint64_t end)
{
    if (h->kind != COFI__FAST_NOTE_MAP || !(h->d & COFI__FAST_ELSEWHERE))
        return;
    __atomic_store_n(&t->head.looked, (uint32_t)end, __ATOMIC_SEQ_CST);
    cofi__fast_wake(&t->head.looked);
}

bool cofi__fast_take_notes(struct cofi__fast_collector *c, uint32_t index)
{
    struct thread *t = cofi__fast_slot(c, index);
    struct cofi__fast_seat *seat = &c->seats[index];
    bool any = false;
    uint64_t tail, head;
    while ((tail = t->head.notes_tail) != (head = __atomic_load_n(&t->head.notes_head, __ATOMIC_ACQUIRE))) {
        struct cofi__fast_note_head h;
        uint8_t bytes[COFI__FAST_NOTE_MOST];
        bool whole = copy_note(t, tail, head, &h, bytes);
        __atomic_store_n(&t->head.notes_tail, whole ? tail + h.size : head, __ATOMIC_RELEASE);
        if (!whole)
            break;
        cofi__fast_place(c, index);
        h.pid = seat->pid;
        h.tid = seat->tid;
        take_note(c, t, seat, &h, bytes);
        tell_looked(t, &h, tail + h.size);
        any = true;
    }
    return any;
}

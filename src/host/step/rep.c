/* SPDX-License-Identifier: MIT
 * REP MOVS and REP STOS: a step runs one iteration, so all but the last few are done here, in memory and registers.
 * What this cannot do as the processor would, it leaves to the processor. */
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "host/step/code.h"
#include "host/step/engine.h"

enum { EFLAGS_TF = 0x100, EFLAGS_DF = 0x400, REP_WORTH = 16, REP_PIECE = 64 << 10 };

/* Unlike cofi__step_read and cofi__step_write these respect the pages' protection. */
static size_t get(pid_t tid, uint64_t addr, void *bytes, size_t n)
{
    struct iovec local = {bytes, n}, remote = {(void *)(uintptr_t)addr, n};
    ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

static size_t put(pid_t tid, uint64_t addr, void *bytes, size_t n)
{
    struct iovec local = {bytes, n}, remote = {(void *)(uintptr_t)addr, n};
    ssize_t got = process_vm_writev(tid, &local, 1, &remote, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

static bool overlap(uint64_t a, uint64_t b, uint64_t distance)
{
    return a - b < distance || b - a < distance;
}

/* How much can be done at once, in bytes: source and destination must not meet, so that doing an element twice
 * is as doing it once; and the instruction itself is not written. */
static size_t piece_of(const struct step_task *task)
{
    const struct user_regs_struct *r = &task->regs;
    size_t element = task->code.element, most = REP_PIECE;
    if (!element || r->rcx < REP_WORTH || r->eflags & (EFLAGS_DF | EFLAGS_TF) || task->user_tf)
        return 0;
    if (r->rcx - 1 < most / element)
        most = (r->rcx - 1) * element;
    if (task->code.moves && overlap(r->rdi, r->rsi, most)) {
        uint64_t distance = r->rdi > r->rsi ? r->rdi - r->rsi : r->rsi - r->rdi;
        most = distance - distance % element;
    }
    return overlap(r->rdi, task->ip, most + STEP_INSN_MAX) ? 0 : most;
}

static void fill(uint8_t *bytes, size_t n, uint64_t value, size_t element)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> 8 * (i % element));
}

/* Leaves one iteration at least to the processor: its step's trap is what tells that the instruction retired. */
void cofi__step_rep_ahead(struct step_task *task)
{
    struct user_regs_struct r = task->regs;
    size_t element = task->code.element, n = piece_of(task);
    uint8_t *bytes = n ? malloc(n) : NULL;
    if (!bytes)
        return;
    if (task->code.moves)
        n = get(task->tid, r.rsi, bytes, n);
    else
        fill(bytes, n, r.rax, element);
    if (n)
        n = put(task->tid, r.rdi, bytes, n);
    free(bytes);
    if (!n || n < element)
        return;
    r.rcx -= n / element;
    r.rdi += n - n % element;
    if (task->code.moves)
        r.rsi += n - n % element;
    if (!ptrace(PTRACE_SETREGS, task->tid, NULL, &r))
        task->regs = r;
}

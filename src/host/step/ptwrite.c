/* SPDX-License-Identifier: MIT
 * PTWRITE: its payload from the registers; and the instruction itself, for processors without. */
#include <string.h>
#include <sys/ptrace.h>

#include <Zydis/Zydis.h>

#include "host/step/engine.h"
#include "host/step/request.h"

/* A general register by its number in encodings. */
static uint64_t general(const struct user_regs_struct *r, unsigned number)
{
    const uint64_t values[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
                                 r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
    return values[number & 15];
}

static uint64_t register_value(const struct user_regs_struct *r, ZydisRegister reg, uint64_t next)
{
    if (reg == ZYDIS_REGISTER_NONE)
        return 0;
    if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP)
        return next;
    uint64_t value = general(r, (unsigned)ZydisRegisterGetId(reg));
    return ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_GPR64 ? value : (uint32_t)value;
}

static uint64_t address_of(const struct user_regs_struct *r, const ZydisDecodedInstruction *zy,
                           const ZydisDecodedOperand *operand, uint64_t next)
{
    uint64_t base = operand->mem.segment == ZYDIS_REGISTER_FS   ? r->fs_base
                    : operand->mem.segment == ZYDIS_REGISTER_GS ? r->gs_base : 0;
    uint64_t address = register_value(r, operand->mem.base, next) +
                       register_value(r, operand->mem.index, next) * operand->mem.scale +
                       (uint64_t)operand->mem.disp.value;
    return base + (zy->address_width == 64 ? address : (uint32_t)address);
}

/* The operand of the PTWRITE at task->ip [SDM PTWRITE]. Returns its size, or 0 if memory does not
 * have it. */
static uint8_t payload_of(struct step_task *task, uint64_t *value)
{
    uint8_t bytes[STEP_INSN_MAX];
    ZydisDecoder decoder;
    ZydisDecodedInstruction zy;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    size_t n = cofi__step_read(task->tid, task->ip, bytes, sizeof bytes);
    bool wide = task->from_mode == 64;
    ZydisDecoderInit(&decoder, wide ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
                     wide ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &zy, operands)))
        return 0;
    uint8_t size = (uint8_t)(operands[0].size / 8);
    uint64_t next = task->ip + zy.length;
    *value = 0;
    if (operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
        *value = register_value(&task->regs, operands[0].reg.value, next);
        return size;
    }
    return cofi__step_read(task->tid, address_of(&task->regs, &zy, &operands[0], next), value, size) ==
                   size
               ? size
               : 0;
}

bool cofi__step_ptwrite(struct step_engine *engine, struct step_task *task)
{
    uint64_t value, next = cofi__derive_next(&task->code.insn, task->ip, task->from_mode);
    uint8_t size = payload_of(task, &value);
    if (!size)
        return false;
    cofi__step_in_user(engine, task, task->ip);
    cofi__feed_ptwrite(&engine->feed, &task->cpu, task->ip, next, value, size);
    return true;
}

bool cofi__step_ptwrite_for(struct step_engine *engine, struct step_task *task)
{
    if (task->code.insn.cls != COFI_CLASS_PTWRITE || !task->code.insn.length ||
        task->regs.rip != task->ip || !cofi__step_ptwrite(engine, task))
        return false;
    task->regs.rip = task->cpu.ip;
    step_ptrace(PTRACE_SETREGS, task->tid, 0, &task->regs);
    return true;
}

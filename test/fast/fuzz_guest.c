/* SPDX-License-Identifier: MIT
 * fuzz-guest SEED COUNT [-v]: run random instructions, print what they did to registers, flags and memory. Run
 * natively and recorded it must print the same. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <Zydis/Zydis.h>

struct state {
    uint64_t gpr[16]; /* 4: unused */
    uint64_t flags;
    uint8_t pad[8];
    uint8_t ymm[16][32];
} __attribute__((aligned(32)));

static uint8_t data[1 << 16] __attribute__((aligned(4096)));
static sigjmp_buf back;
static volatile int fault;
static volatile uint64_t fault_regs[23];
extern struct state fuzz_in, fuzz_out;
extern uint64_t fuzz_target;
struct state fuzz_in, fuzz_out;
uint64_t fuzz_target;
void fuzz_run(void);

/* Load every register from fuzz_in, call fuzz_target, store every register to fuzz_out. */
__asm__(
    ".text\n.globl fuzz_run\nfuzz_run:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $136, %rsp\n"
    "vmovdqu fuzz_in+144(%rip), %ymm0\n vmovdqu fuzz_in+176(%rip), %ymm1\n vmovdqu fuzz_in+208(%rip), %ymm2\n"
    "vmovdqu fuzz_in+240(%rip), %ymm3\n vmovdqu fuzz_in+464(%rip), %ymm10\n vmovdqu fuzz_in+496(%rip), %ymm11\n"
    "pushq fuzz_in+128(%rip)\n popfq\n"
    "mov fuzz_in(%rip), %rax\n mov fuzz_in+8(%rip), %rcx\n mov fuzz_in+16(%rip), %rdx\n mov fuzz_in+24(%rip), %rbx\n"
    "mov fuzz_in+40(%rip), %rbp\n mov fuzz_in+48(%rip), %rsi\n mov fuzz_in+56(%rip), %rdi\n mov fuzz_in+64(%rip), %r8\n"
    "mov fuzz_in+72(%rip), %r9\n mov fuzz_in+80(%rip), %r10\n mov fuzz_in+88(%rip), %r11\n mov fuzz_in+96(%rip), %r12\n"
    "mov fuzz_in+104(%rip), %r13\n mov fuzz_in+112(%rip), %r14\n mov fuzz_in+120(%rip), %r15\n"
    "call *fuzz_target(%rip)\n"
    "mov %rax, fuzz_out(%rip)\n mov %rcx, fuzz_out+8(%rip)\n mov %rdx, fuzz_out+16(%rip)\n mov %rbx, fuzz_out+24(%rip)\n"
    "mov %rbp, fuzz_out+40(%rip)\n mov %rsi, fuzz_out+48(%rip)\n mov %rdi, fuzz_out+56(%rip)\n mov %r8, fuzz_out+64(%rip)\n"
    "mov %r9, fuzz_out+72(%rip)\n mov %r10, fuzz_out+80(%rip)\n mov %r11, fuzz_out+88(%rip)\n mov %r12, fuzz_out+96(%rip)\n"
    "mov %r13, fuzz_out+104(%rip)\n mov %r14, fuzz_out+112(%rip)\n mov %r15, fuzz_out+120(%rip)\n"
    "pushfq\n popq fuzz_out+128(%rip)\n cld\n"
    "vmovdqu %ymm0, fuzz_out+144(%rip)\n vmovdqu %ymm1, fuzz_out+176(%rip)\n vmovdqu %ymm2, fuzz_out+208(%rip)\n"
    "vmovdqu %ymm3, fuzz_out+240(%rip)\n vmovdqu %ymm10, fuzz_out+464(%rip)\n vmovdqu %ymm11, fuzz_out+496(%rip)\n"
    "vzeroupper\n add $136, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *uc = context;
    fault = signo;
    for (int i = 0; i < 16; i++)
        fault_regs[i] = (uint64_t)uc->uc_mcontext.gregs[i];
    fault_regs[15] = 0; /* RSP */
    siglongjmp(back, 1);
}

/* Bytes that are some instruction, with prefixes, every map, R11 and RIP often. */
static void random_bytes(uint64_t *seed, uint8_t *p)
{
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0x67, 0x64, 0x2e};
    unsigned n = 0;
    for (unsigned i = 0; i < 15; i++)
        p[i] = (uint8_t)next_random(seed);
    uint64_t r = next_random(seed);
    if ((r & 7) == 0)
        p[n++] = prefixes[(r >> 8) % sizeof prefixes];
    r >>= 16;
    unsigned kind = r % 8;
    if (kind < 5 && r & 0x100)
        p[n++] = (uint8_t)(0x40 | (r >> 12 & 15));
    if (kind == 1 || kind == 2)
        p[n++] = 0x0f;
    if (kind == 2)
        p[n++] = r & 0x200 ? 0x38 : 0x3a;
    if (kind == 5)
        p[n++] = 0xc5;
    if (kind == 6) {
        p[n++] = 0xc4;
        p[n] = (uint8_t)((p[n] & 0xe0) | (1 + p[n] % 3));
    }
    if (kind == 7) {
        p[n++] = 0x62;
        p[n] = (uint8_t)((p[n] & 0xf0) | (1 + p[n] % 6));
        p[n + 1] |= 4;
    }
}

/* Not what the kernel, time, the processor's identity or the instruction's own address decides. */
static int is_tame(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops)
{
    static const uint16_t no[] = {
        ZYDIS_MNEMONIC_RDTSC, ZYDIS_MNEMONIC_RDTSCP, ZYDIS_MNEMONIC_RDRAND, ZYDIS_MNEMONIC_RDSEED, ZYDIS_MNEMONIC_CPUID,
        ZYDIS_MNEMONIC_RDPID, ZYDIS_MNEMONIC_RDPMC, ZYDIS_MNEMONIC_FNSTENV, ZYDIS_MNEMONIC_FNSAVE, ZYDIS_MNEMONIC_FXSAVE,
        ZYDIS_MNEMONIC_FXSAVE64, ZYDIS_MNEMONIC_XSAVE, ZYDIS_MNEMONIC_XSAVE64, ZYDIS_MNEMONIC_XSAVEC,
        ZYDIS_MNEMONIC_XSAVEC64, ZYDIS_MNEMONIC_XSAVEOPT, ZYDIS_MNEMONIC_XSAVEOPT64, ZYDIS_MNEMONIC_XRSTOR,
        ZYDIS_MNEMONIC_XRSTOR64, ZYDIS_MNEMONIC_FXRSTOR, ZYDIS_MNEMONIC_FXRSTOR64, ZYDIS_MNEMONIC_FRSTOR,
        ZYDIS_MNEMONIC_FLDENV, ZYDIS_MNEMONIC_LDMXCSR, ZYDIS_MNEMONIC_VLDMXCSR, ZYDIS_MNEMONIC_FLDCW, ZYDIS_MNEMONIC_WRFSBASE,
        ZYDIS_MNEMONIC_WRGSBASE, ZYDIS_MNEMONIC_RDFSBASE, ZYDIS_MNEMONIC_RDGSBASE, ZYDIS_MNEMONIC_SGDT,
        ZYDIS_MNEMONIC_SIDT, ZYDIS_MNEMONIC_SLDT, ZYDIS_MNEMONIC_STR, ZYDIS_MNEMONIC_SMSW, ZYDIS_MNEMONIC_ENTER,
        ZYDIS_MNEMONIC_LEAVE, ZYDIS_MNEMONIC_POPF, ZYDIS_MNEMONIC_POPFQ, ZYDIS_MNEMONIC_PUSHF, ZYDIS_MNEMONIC_PUSHFQ,
        ZYDIS_MNEMONIC_MONITORX, ZYDIS_MNEMONIC_MWAITX, ZYDIS_MNEMONIC_XLAT, ZYDIS_MNEMONIC_LSL, ZYDIS_MNEMONIC_LAR,
        ZYDIS_MNEMONIC_VERR, ZYDIS_MNEMONIC_VERW, ZYDIS_MNEMONIC_WRPKRU, ZYDIS_MNEMONIC_CLZERO, ZYDIS_MNEMONIC_INT1};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (zy->mnemonic == no[i])
            return 0;
    if (zy->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE || zy->meta.category == ZYDIS_CATEGORY_SYSTEM ||
        zy->meta.category == ZYDIS_CATEGORY_INTERRUPT || zy->meta.category == ZYDIS_CATEGORY_SYSCALL ||
        zy->meta.category == ZYDIS_CATEGORY_IO || zy->meta.category == ZYDIS_CATEGORY_IOSTRINGOP ||
        zy->meta.category == ZYDIS_CATEGORY_SEGOP || zy->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
        return 0;
    if (zy->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))
        return 0; /* RCX may be a pointer: too far */
    for (unsigned i = 0; i < zy->operand_count; i++) {
        /* An address without a register may be the runtime's own. */
        if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].mem.base == ZYDIS_REGISTER_NONE)
            return 0;
        if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER) {
            ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, ops[i].reg.value);
            ZydisRegisterClass c = ZydisRegisterGetClass(ops[i].reg.value);
            if ((wide == ZYDIS_REGISTER_RSP && ops[i].visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN) || c == ZYDIS_REGCLASS_SEGMENT)
                return 0;
        }
        if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
            (ops[i].mem.segment == ZYDIS_REGISTER_GS || ops[i].mem.segment == ZYDIS_REGISTER_FS ||
             ops[i].mem.base == ZYDIS_REGISTER_RSP || ops[i].mem.base == ZYDIS_REGISTER_ESP))
            return 0;
    }
    return zy->meta.category != ZYDIS_CATEGORY_PUSH && zy->meta.category != ZYDIS_CATEGORY_POP;
}

/* Point what has a displacement at the data: RIP-relative exactly, others near where the registers point. */
static void aim(const ZydisDecodedInstruction *zy, uint8_t *p, uint64_t *seed)
{
    if (!(zy->attributes & ZYDIS_ATTRIB_HAS_MODRM) || zy->raw.modrm.mod == 3 || zy->raw.disp.size < 32)
        return;
    int32_t disp = (int32_t)(next_random(seed) & 0x3ff) - 512;
    if (zy->raw.modrm.mod == 0 && zy->raw.modrm.rm == 5)
        disp += (int32_t)(data + sizeof data / 2 - (p + zy->length));
    memcpy(p + zy->raw.disp.offset, &disp, 4);
}

static __attribute__((noinline)) uint64_t hash(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static void fill(uint64_t *seed)
{
    for (int i = 0; i < 16; i++)
        fuzz_in.gpr[i] = (uint64_t)(uintptr_t)data + sizeof data / 2 + (next_random(seed) & 0x7f8);
    if ((next_random(seed) & 3) == 0)
        fuzz_in.gpr[1] = next_random(seed) & 63; /* RCX: counts */
    fuzz_in.flags = 0x202 | (next_random(seed) & 0x8d5);
    for (size_t i = 0; i < sizeof fuzz_in.ymm; i++)
        ((uint8_t *)fuzz_in.ymm)[i] = (uint8_t)next_random(seed);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15u + 1 : 1;
    long count = argc > 2 ? atol(argv[2]) : 1000;
    int verbose = argc > 3;
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    /* Fixed, and below 2 GB of the data or beyond: RIP reaches or it does not, by the seed. */
    uint8_t *code = mmap((void *)(uintptr_t)(((uintptr_t)data & ~0xffffful) + 0x10000000), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    static const int signals[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP};
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &a, NULL);
    if (code == MAP_FAILED)
        return 3;
    uint64_t total = 0;
    fuzz_target = (uint64_t)(uintptr_t)code;
    for (long i = 0; i < count;) {
        ZydisDecodedInstruction zy;
        ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
        uint8_t bytes[16];
        random_bytes(&seed, bytes);
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, 15, &zy, ops)) || !is_tame(&zy, ops))
            continue;
        memcpy(code, bytes, zy.length);
        aim(&zy, code, &seed);
        code[zy.length] = 0xc3;
        fill(&seed);
        memset(data + sizeof data / 2 - 4096, (int)(seed & 255), 8192);
        memset((void *)fault_regs, 0, sizeof fault_regs);
        fault = 0;
        __asm__ volatile("fninit");
        memset(&fuzz_out, 0, sizeof fuzz_out);
        if (!sigsetjmp(back, 1))
            fuzz_run();
        uint64_t h = hash(0xcbf29ce484222325u, &fuzz_out, sizeof fuzz_out);
        /* The relocatable part of values is the data's address: the same in both runs, ASLR being off. */
        h = hash(h, (const void *)fault_regs, sizeof fault_regs);
        h = hash(h, data + sizeof data / 2 - 4096, 8192);
        total = hash(total, &h, 8);
        if (verbose) {
            char text[96];
            ZydisFormatter f;
            ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
            ZydisFormatterFormatInstruction(&f, &zy, ops, zy.operand_count_visible, text, sizeof text, 0, NULL);
            printf("%ld %d %016llx ", i, fault, (unsigned long long)h);
            for (int k = 0; k < zy.length; k++)
                printf("%02x", code[k]);
            printf(" %s\n", text);
        }
        i++;
    }
    printf("%016llx\n", (unsigned long long)total);
    return 0;
}

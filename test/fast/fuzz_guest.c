/* SPDX-License-Identifier: MIT
 * fuzz-guest SEED COUNT [-v [N]]: run random sequences of instructions, print what they did to registers, flags, vectors and memory.
 * -v tells each sequence's, and of the N-th all that was compared. fuzz-guest -b HEX…: sequences with these instructions. Natively and recorded it must print the same.
 * fuzz-guest -w SEED COUNT, natively: the numbers of sequences that reach for memory where the runtime would be. LEAVE_OUT in the environment
 * holds such numbers, in order. */
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <Zydis/Zydis.h>

#include "fuzz_code.h"

enum { XSAVE_BYTES = 4096, FAULTS_MAX = 200, GS_BASE = 64 };
/* The runtime and the translated code of what lies in the lowest places are somewhere in here. */
enum { WILD_FROM = 0x10000000, WILD_TO = 0x7fffffff, NEAR = 0x7fffffff };
static const uint64_t HIGH_FROM = 0x2f0000000000, HIGH_PLACES = 0x10000000000;

/* As processors lay it out where nothing is compacted: FXSAVE's 512 bytes, a header, AVX, opmasks, ZMM. */
struct state {
    uint64_t gpr[16];
    uint64_t flags;
    uint8_t pad[56];
    uint8_t vectors[XSAVE_BYTES];
} __attribute__((aligned(64)));

struct state fuzz_in, fuzz_out;
uint64_t fuzz_target, fuzz_rsp;
uint32_t fuzz_components;
void fuzz_run(void);
extern char fuzz_exit[];

/* Load all from fuzz_in, go to fuzz_target; what comes to fuzz_exit is stored to fuzz_out. */
__asm__(
    ".text\n.globl fuzz_run, fuzz_exit\nfuzz_run:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $8, %rsp\n mov %rsp, fuzz_rsp(%rip)\n"
    "mov fuzz_components(%rip), %eax\n xor %edx, %edx\n xrstor64 fuzz_in+192(%rip)\n"
    "pushq fuzz_in+128(%rip)\n popfq\n"
    "mov fuzz_in(%rip), %rax\n mov fuzz_in+8(%rip), %rcx\n mov fuzz_in+16(%rip), %rdx\n mov fuzz_in+24(%rip), %rbx\n"
    "mov fuzz_in+32(%rip), %rsp\n mov fuzz_in+40(%rip), %rbp\n mov fuzz_in+48(%rip), %rsi\n mov fuzz_in+56(%rip), %rdi\n"
    "mov fuzz_in+64(%rip), %r8\n mov fuzz_in+72(%rip), %r9\n mov fuzz_in+80(%rip), %r10\n mov fuzz_in+88(%rip), %r11\n"
    "mov fuzz_in+96(%rip), %r12\n mov fuzz_in+104(%rip), %r13\n mov fuzz_in+112(%rip), %r14\n mov fuzz_in+120(%rip), %r15\n"
    "jmp *fuzz_target(%rip)\n"
    "fuzz_exit:\n"
    "mov %rax, fuzz_out(%rip)\n mov %rcx, fuzz_out+8(%rip)\n mov %rdx, fuzz_out+16(%rip)\n mov %rbx, fuzz_out+24(%rip)\n"
    "mov %rsp, fuzz_out+32(%rip)\n mov %rbp, fuzz_out+40(%rip)\n mov %rsi, fuzz_out+48(%rip)\n mov %rdi, fuzz_out+56(%rip)\n"
    "mov %r8, fuzz_out+64(%rip)\n mov %r9, fuzz_out+72(%rip)\n mov %r10, fuzz_out+80(%rip)\n mov %r11, fuzz_out+88(%rip)\n"
    "mov %r12, fuzz_out+96(%rip)\n mov %r13, fuzz_out+104(%rip)\n mov %r14, fuzz_out+112(%rip)\n mov %r15, fuzz_out+120(%rip)\n"
    "mov fuzz_rsp(%rip), %rsp\n pushfq\n popq fuzz_out+128(%rip)\n pushq $2\n popfq\n"
    "mov fuzz_components(%rip), %eax\n xor %edx, %edx\n xsave64 fuzz_out+192(%rip)\n"
    "fninit\n movl $0x1f80, (%rsp)\n ldmxcsr (%rsp)\n vzeroupper\n"
    "add $8, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

static const struct sequence *running;
static uint64_t seen; /* hash of the faults */
static unsigned faults;
static bool wild; /* a fault was where the runtime's memory would be */
static struct { uint64_t told[6], regs[18]; } list[FAULTS_MAX + 1];

static uint64_t hash(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (uint64_t v; n >= 8; n -= 8, b += 8) {
        memcpy(&v, b, 8);
        h = (h ^ v) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

/* Below each of the other places is its translated code. */
static bool is_wild(uint64_t address)
{
    uint64_t low = address % HIGH_PLACES;
    return (address >= WILD_FROM && address < WILD_TO) || (address >= HIGH_FROM && low > HIGH_PLACES - NEAR);
}

/* What a handler is told counts; then the program goes on behind the instruction. */
static void on_fault(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    greg_t *g = uc->uc_mcontext.gregs;
    uint64_t told[] = {(uint64_t)signo, (uint64_t)info->si_code, (uint64_t)info->si_addr, (uint64_t)g[REG_TRAPNO], (uint64_t)g[REG_ERR],
                       (uint64_t)g[REG_CR2]};
    seen = hash(seen, told, sizeof told);
    seen = hash(seen, g, 18 * sizeof *g); /* to RIP and the flags */
    if (told[3] == 14) /* page fault */
        wild |= is_wild(told[5]);
    if (faults <= FAULTS_MAX) {
        memcpy(list[faults].told, told, sizeof told);
        memcpy(list[faults].regs, g, sizeof list[faults].regs);
    }
    uint64_t offset = (uint64_t)g[REG_RIP] - (uint64_t)running->code, next = (uint64_t)fuzz_exit;
    for (unsigned i = 0; i < running->n; i++)
        if (offset >= running->start[i] && offset < running->start[i + 1])
            next = (uint64_t)running->code + running->start[i + 1];
    if (!running->n) /* asked for */
        next = (uint64_t)fuzz_exit;
    if (signo == SIGTRAP && offset < running->bytes)
        return; /* it is behind the instruction already */
    g[REG_RIP] = (greg_t)(++faults > FAULTS_MAX ? (uint64_t)fuzz_exit : next);
}

static void fill_vectors(uint64_t *seed, bool indexes)
{
    uint8_t *v = fuzz_in.vectors;
    uint64_t r = fuzz_random(seed);
    uint16_t control = r & 7 ? 0x37f : (uint16_t)(0x300 | (r >> 8 & 0xc3f)), status = (uint16_t)(r >> 16 & 0x3800);
    uint32_t mxcsr = r & 0x70 ? 0x1f80 : (uint32_t)(r >> 32 & 0xffc0);
    for (unsigned i = 0; i < XSAVE_BYTES; i += 8) {
        uint64_t x = fuzz_random(seed);
        x = indexes ? x & 0x3f8 : x;
        memcpy(v + i, &x, 8);
    }
    memcpy(v, &control, 2);
    memcpy(v + 2, &status, 2);
    memset(v + 4, 0, 20);
    v[4] = (uint8_t)(r >> 56);
    memcpy(v + 24, &mxcsr, 4);
    memset(v + 28, 0, 4);
    memset(v + 512, 0, 64);
    memcpy(v + 512, &fuzz_components, 4);
}

static void fill(uint64_t *seed, const uint8_t *data, bool indexes)
{
    for (int i = 0; i < 16; i++)
        fuzz_in.gpr[i] = fuzz_random(seed) & 1 ? fuzz_random(seed) : (uint64_t)(uintptr_t)data + DATA_BYTES / 2 + (fuzz_random(seed) & 0x7f8);
    if ((fuzz_random(seed) & 3) == 0)
        fuzz_in.gpr[1] = fuzz_random(seed) & 63; /* RCX: counts */
    fuzz_in.gpr[4] = (uint64_t)(uintptr_t)data + DATA_BYTES / 2 + (fuzz_random(seed) & 0x7f8);
    fuzz_in.flags = 0x202 | (fuzz_random(seed) & 0x2008d5);
    fuzz_in.flags |= fuzz_random(seed) % 8 == 0 ? 0x400 : 0;
    fill_vectors(seed, indexes);
}

/* What came of it. The x87 unit's pointers to code and data do not count: the translation's are in them (docs/limits.md). Nor does
 * whether registers that are zero are in use: that changes with each way to the kernel. */
static uint64_t result(void)
{
    uint64_t h = seen;
    memset(fuzz_out.vectors + 6, 0, 18); /* FOP, FIP, FDP */
    memset(fuzz_out.vectors + 512, 0, 8); /* XSTATE_BV */
    h = hash(h, fuzz_out.gpr, sizeof fuzz_out.gpr + 8);
    h = hash(h, fuzz_out.vectors, 416);
    return hash(h, fuzz_out.vectors + 512, XSAVE_BYTES - 512);
}

/* ---- places ---- */

static struct place places[3];
static uint8_t *data;

static void *map(uint64_t at, size_t bytes, int prot)
{
    void *p = mmap((void *)at, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(3);
    }
    return p;
}

static struct place make_place(uint64_t code, uint64_t near)
{
    struct place p = {map(code, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC), NULL, NULL};
    p.data = data && near - (uint64_t)data < 0x1000000 ? data : map(near, DATA_BYTES, PROT_READ | PROT_WRITE);
    p.slots = map(near + 0x100000, 4096, PROT_READ | PROT_WRITE);
    return p;
}

/* Below 2 GB; high up with its data close by; and with its data where no translation of the code reaches. */
static void make_places(void)
{
    data = map(0x50000000, DATA_BYTES, PROT_READ | PROT_WRITE);
    places[0] = make_place(0x12000000, 0x50000000);
    places[1] = make_place(0x300000000000, 0x300001000000);
    places[2] = make_place(0x310000000000, 0x310078000000);
}

static uint64_t run(struct sequence *s, uint64_t *seed)
{
    static const uint8_t out[6] = {0xff, 0x25, 0, 0, 0, 0};
    static const struct sequence nothing;
    void *exit_at = fuzz_exit;
    memcpy(s->code + s->bytes, out, 6); /* jmp *(rip+0) */
    memcpy(s->code + s->bytes + 6, &exit_at, 8);
    fill(seed, data, s->vector_index);
    int byte = (int)(fuzz_random(seed) & 255) | 0x80; /* no address that the runtime may have */
    memset(data, byte, DATA_BYTES);
    for (unsigned i = 1; i < 3; i++)
        memset(places[i].data, byte, DATA_BYTES);
    syscall(SYS_arch_prctl, 0x1001, GS_BASE);
    /* Frames of other faults tell the last page fault's address: that of this one. */
    running = &nothing;
    fuzz_target = 0x1008;
    fuzz_run();
    running = s;
    seen = faults = wild = 0;
    fuzz_target = (uint64_t)(uintptr_t)s->code;
    fuzz_run();
    uint64_t h = result(), gs = 0;
    syscall(SYS_arch_prctl, 0x1004, &gs);
    h = hash(h, &gs, 8);
    h = hash(h, data, DATA_BYTES);
    for (unsigned i = 1; i < 3; i++)
        h = hash(h, places[i].data, DATA_BYTES);
    return h;
}

static void print(long i, uint64_t h, const struct sequence *s)
{
    printf("%ld %016llx %u faults, at %p:", i, (unsigned long long)h, faults, (void *)s->code);
    for (unsigned k = 0; k < s->n; k++) {
        printf(" %s ", ZydisMnemonicGetString(s->mnemonic[k]));
        for (unsigned b = s->insn[k]; b < s->start[k + 1]; b++)
            printf("%02x", s->code[b]);
    }
    putchar('\n');
}

static void print_words(const char *name, const uint64_t *words, unsigned n)
{
    printf("  %s", name);
    for (unsigned i = 0; i < n; i++)
        printf(" %llx", (unsigned long long)words[i]);
    putchar('\n');
}

/* What the result was made of. */
static void print_all(void)
{
    for (unsigned i = 0; i < faults && i <= FAULTS_MAX; i++) {
        print_words("fault (signal, code, address, trap, error, cr2)", list[i].told, 6);
        print_words("  r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags", list[i].regs, 18);
    }
    print_words("registers", fuzz_out.gpr, 17);
    for (unsigned i = 0; i < 416; i += 32)
        print_words("x87 and xmm", (uint64_t *)(fuzz_out.vectors + i), 4);
    for (unsigned i = 512; i < XSAVE_BYTES; i += 64)
        print_words("vectors", (uint64_t *)(fuzz_out.vectors + i), 8);
}

static unsigned from_hex(const char *text, uint8_t *bytes)
{
    unsigned n = 0, value;
    while (n < 15 && sscanf(text + 2 * n, "%2x", &value) == 1)
        bytes[n++] = (uint8_t)value;
    return n;
}

static uint8_t ran[ZYDIS_MNEMONIC_MAX_VALUE + 1];

/* Whether i is the next of the numbers, which are in order. */
static bool left_out(const char **numbers, long i)
{
    char *end;
    if (!*numbers || strtol(*numbers, &end, 10) != i || end == *numbers)
        return false;
    *numbers = end;
    return true;
}

/* What is printed of each sequence. */
enum print { PRINT_NOTHING, PRINT_WILD, PRINT_ALL };

static void run_random(uint64_t seed, long count, enum print what, long all)
{
    const char *leave_out = getenv("LEAVE_OUT");
    uint64_t total = 0, insns = 0, mnemonics = 0;
    for (long i = 0; i < count; i++) {
        struct sequence s;
        fuzz_make(&s, &seed, &places[fuzz_random(&seed) % 3], data);
        uint64_t fill_seed = fuzz_random(&seed) | 1;
        if (left_out(&leave_out, i))
            continue;
        if (what == PRINT_ALL) { /* first as it is to run; what faults kill is seen then */
            printf("%ld ", i);
            fflush(stdout);
        }
        uint64_t h = run(&s, &fill_seed);
        total = hash(total, &h, 8);
        insns += s.n;
        for (unsigned k = 0; k < s.n; k++)
            ran[s.mnemonic[k]] = 1;
        if (what == PRINT_ALL)
            print(i, h, &s);
        if (what == PRINT_ALL && i == all)
            print_all();
        if (what == PRINT_WILD && wild)
            printf("%ld\n", i);
    }
    for (unsigned i = 0; i < sizeof ran; i++)
        mnemonics += ran[i];
    if (what != PRINT_WILD)
        printf("%llu instructions, %llu mnemonics: %016llx\n", (unsigned long long)insns, (unsigned long long)mnemonics, (unsigned long long)total);
}

static int run_given(int n, char **hex)
{
    for (int i = 0; i < n; i++) {
        uint64_t seed = 0x9e3779b97f4a7c15u + (uint64_t)i;
        uint8_t bytes[16];
        unsigned size = from_hex(hex[i], bytes);
        for (unsigned k = 0; k < 12; k++) {
            struct sequence s;
            if (!fuzz_make_of(&s, &seed, &places[k % 3], data, bytes, size)) {
                printf("%s: not usable at place %u\n", hex[i], k % 3);
                continue;
            }
            uint64_t h = run(&s, &seed);
            print(k, h, &s);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t stack[1 << 16];
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    static const int signals[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP};
    uint32_t low = 0, high, unused;
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &a, NULL);
    __get_cpuid(1, &unused, &unused, &low, &unused);
    if (!(low >> 27 & 1))
        return 77; /* no XSAVE */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    fuzz_components = low & 0xe7;
    alarm(300); /* a loop that does not end */
    make_places();
    if (argc > 2 && !strcmp(argv[1], "-b"))
        return run_given(argc - 2, argv + 2);
    bool find_wild = argc > 1 && !strcmp(argv[1], "-w");
    argc -= find_wild;
    argv += find_wild;
    run_random(argc > 1 ? strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15u + 1 : 1, argc > 2 ? atol(argv[2]) : 1000,
               find_wild ? PRINT_WILD : argc > 3 ? PRINT_ALL : PRINT_NOTHING, argc > 4 ? atol(argv[4]) : -1);
    return 0;
}

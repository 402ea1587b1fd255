/* Instructions that fault, and little else: the handler counts, and goes on behind each. Whoever stops it finds a fault's signal waiting as
 * often as not. For so many seconds, or until there is a file `enough`. usage: faults SECONDS */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned long seen[65], wrong;

static void on_fault(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    seen[signo]++;
    wrong += info->si_code <= 0;
    if (signo != SIGTRAP) /* which comes behind its instruction */
        uc->uc_mcontext.gregs[REG_RIP] += 2;
}

/* Each of two bytes, but for INT3. */
static void fault_once(const void *behind_end)
{
    __asm__ volatile("mov (%%rcx), %%eax" : : "c"(0x1000) : "rax");
    __asm__ volatile("mov (%%rcx), %%eax" : : "c"(behind_end) : "rax");
    __asm__ volatile("ud2");
    __asm__ volatile("div %%ecx" : : "a"(1), "c"(0) : "rdx");
    __asm__ volatile("int3");
    __asm__ volatile("int $0x90"); /* #GP */
}

int main(int argc, char **argv)
{
    const int signals[] = {SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGBUS};
    unsigned long n = 0;
    FILE *empty = tmpfile();
    const void *behind_end = empty ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0) : MAP_FAILED;
    if (behind_end == MAP_FAILED)
        return 1;
    for (int i = 0; i < 5; i++)
        sigaction(signals[i], &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, NULL);
    for (time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1); time(NULL) < end && access("enough", F_OK); n++)
        fault_once(behind_end);
    int good = n && !wrong && seen[SIGSEGV] == 2 * n && seen[SIGBUS] == n && seen[SIGILL] == n && seen[SIGFPE] == n && seen[SIGTRAP] == n;
    printf("%s\n", good ? "all" : "not all");
    return 0;
}

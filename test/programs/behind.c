/* SPDX-License-Identifier: MIT
 * A taken branch leads to a jump back to the address behind it, over and over, while a timer interrupts: an interrupt
 * there looks like a branch that left the traced region, where nobody tells the region. */
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t alarms;

static void on_alarm(int s) { alarms += s == SIGALRM; }

int main(void)
{
    struct itimerval often = {{0, 1500}, {0, 1500}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, 0);
    __asm__ volatile("mov $4000, %%ecx\n"
                     "1: test %%ecx, %%ecx\n"
                     "jnz 3f\n"
                     "2: dec %%ecx\n"
                     "jnz 1b\n"
                     "jmp 4f\n"
                     "3: jmp 2b\n"
                     "4:\n" ::: "ecx", "cc", "memory");
    return 0;
}

/* SPDX-License-Identifier: MIT
 * What an event costs a unit: RTIT and PT, every enable computed, and by the narrow door. Prints ns a branch. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cofi/unit.h>

enum { BRANCHES = 1 << 22, ROUNDS = 5 };

static uint64_t made;

static int drop(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)bytes;
    made += n;
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void set(struct cofi_unit *unit, const char *fields)
{
    char text[256], *save = NULL;
    snprintf(text, sizeof text, "%s", fields);
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        unsigned long long value = 0;
        *equals = 0;
        sscanf(equals + 1, "%llx", &value);
        if (cofi_unit_set_field(unit, word, value) < 0)
            fprintf(stderr, "bench-unit: no field %s\n", word);
    }
}

static struct cofi_unit *open_unit(enum cofi_gen gen, const char *fields)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = gen, .sink = {drop, NULL}};
    struct cofi_context context = {.vmcs = UINT64_MAX, .cpl = 3, .mode = 64, .cr0_pg = true, .cr3 = 0x5000};
    struct cofi_unit *unit;
    if (cofi_unit_open(&unit, &config) < 0)
        return NULL;
    cofi_unit_context(unit, &context, 0x401000);
    set(unit, fields);
    return unit;
}

static void conditional(struct cofi_unit *unit, uint32_t i)
{
    struct cofi_event e = {.kind = COFI_EV_JCC, .ip = 0x401000, .next = 0x401002, .target = 0x401100,
                           .taken = (i * 2654435761u) >> 31};
    cofi_unit_event(unit, &e);
}

/* Time passes: a CLOCK event before each eighth branch, with MTC and CYC packets when they are due. */
static void timed(struct cofi_unit *unit, uint32_t i)
{
    if (i % 8 == 0) {
        struct cofi_event e = {.kind = COFI_EV_CLOCK, .tsc = i, .cycles = i};
        cofi_unit_event(unit, &e);
    }
    conditional(unit, i);
}

static void clock_event(struct cofi_unit *unit, uint32_t i)
{
    struct cofi_event e = {.kind = COFI_EV_CLOCK, .tsc = i, .cycles = i};
    cofi_unit_event(unit, &e);
}

static void indirect(struct cofi_unit *unit, uint32_t i)
{
    struct cofi_event e = {.kind = COFI_EV_JMP_IND, .ip = 0x401000, .next = 0x401002, .target = 0x401000 + (i & 0xff0)};
    cofi_unit_event(unit, &e);
}

/* Best of some rounds. */
static void measure(const char *name, enum cofi_gen gen, const char *fields, void (*each)(struct cofi_unit *, uint32_t))
{
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        struct cofi_unit *unit = open_unit(gen, fields);
        if (!unit)
            return;
        double start = now();
        for (uint32_t i = 0; i < BRANCHES; i++)
            each(unit, i);
        double ns = (now() - start) / BRANCHES;
        best = ns < best ? ns : best;
        cofi_unit_close(unit);
    }
    printf("%-58s %7.2f ns\n", name, best);
}

static void measure_door(const char *name, enum cofi_gen gen, const char *fields)
{
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        struct cofi_unit *unit = open_unit(gen, fields);
        if (!unit)
            return;
        double start = now();
        for (uint32_t i = 0; i < BRANCHES; i += 64)
            cofi_unit_tnt(unit, i * UINT64_C(0x9e3779b97f4a7c15), 64);
        double ns = (now() - start) / BRANCHES;
        best = ns < best ? ns : best;
        cofi_unit_close(unit);
    }
    printf("%-58s %7.2f ns\n", name, best);
}

#define RTIT_ALL "filter_event_id=7 tracestop_event_id=6 os=1 user=1 dest=1 "
#define RTIT_RANGES "filter_event_id=0 lip0=401000 lip2=402000 tracestop_event_id=1 lip1=900000 lip3=901000 os=1 user=1 cr3_en=1 " \
                    "cr3_match=280 cmprs_ret=1 "
#define ON "trace_en=1 trace_active=1"
#define PT_RANGES "addr0_a=401000 addr0_b=401fff addr0_cfg=1 addr1_a=900000 addr1_b=900fff addr1_cfg=2 cr3_filter=1 cr3_match=280 "
#define PT_ALL "os=1 user=1 branch_en=1 trace_en=1"

int main(void)
{
    measure("RTIT conditional branch", COFI_RTIT, RTIT_ALL ON, conditional);
    measure("RTIT conditional branch, IP ranges, CR3, TraceStop", COFI_RTIT, RTIT_RANGES "filter_en=1 " ON, conditional);
    measure("RTIT conditional branch, all that and cycle counts", COFI_RTIT, RTIT_RANGES "filter_en=1 cycle_acc=1 " ON, conditional);
    measure("RTIT indirect branch", COFI_RTIT, RTIT_ALL ON, indirect);
    measure_door("RTIT conditional branch by the narrow door", COFI_RTIT, RTIT_ALL ON);
    measure("PT conditional branch", COFI_PT, PT_ALL, conditional);
    measure("PT conditional branch, IP ranges, CR3, TraceStop", COFI_PT, PT_RANGES PT_ALL, conditional);
    measure("PT conditional branch, all that, TSC, MTC and cycle counts", COFI_PT,
            PT_RANGES "tsc_en=1 mtc_en=1 mtc_freq=3 cyc_en=1 ptw_en=1 pwr_evt_en=1 event_en=1 " PT_ALL, conditional);
    measure("PT conditional branch, all that, time passing", COFI_PT,
            PT_RANGES "tsc_en=1 mtc_en=1 mtc_freq=3 cyc_en=1 ptw_en=1 pwr_evt_en=1 event_en=1 " PT_ALL, timed);
    measure("PT clock event, nothing due", COFI_PT, PT_ALL, clock_event);
    measure("PT indirect branch", COFI_PT, PT_ALL, indirect);
    measure_door("PT conditional branch by the narrow door", COFI_PT, PT_ALL);
    return made == 0;
}

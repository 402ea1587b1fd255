/* SPDX-License-Identifier: MIT
 * Buffer overflow, sentence by sentence [RTIT 4.2.5]. */
#include "unit/rtit_rig.h"

/* 16 bytes, which all leave every 100 cycles. */
static const struct cofi_unit_config small = {.buffer_bytes = 16, .drain_bytes = 16, .drain_cycles = 100};
/* The same with cycle counts: 2 packets of 8 bytes. */
static const struct cofi_unit_config cycsmall = {.buffer_bytes = 16, .drain_bytes = 16, .drain_cycles = 100};
static const struct cofi_unit_config large = {.buffer_bytes = 4096, .drain_bytes = 64, .drain_cycles = 100};
/* Leaves byte by byte. */
static const struct cofi_unit_config slow = {.buffer_bytes = 16, .drain_bytes = 1, .drain_cycles = 10};

#define C0 "clock tsc=1 cycles=0;"
/* 14 of 16 bytes. */
#define FILL C0 "jmp* ip=1 next=3 target=111100000000;jmp* ip=1 next=3 target=222200000000;"
/* The third does not fit: overflow. */
#define OVER FILL "jmp* ip=1 next=3 target=333300000000;"
#define FILLED "tip 111100000000; tip 222200000000"
#define EMPTY "clock tsc=1 cycles=100;"
#define RANGE "filter_event_id=0 lip0=1000 lip2=2000 "
#define IN "jmp ip=9 next=b target=1100"
#define TIP "jmp* ip=1100 next=1102 target=1200;"
#define RANGE_OVER C0 TIP TIP TIP TIP TIP TIP /* five fit */
#define RANGE_FILLED "tip 1200; tip 1200; tip 1200; tip 1200; tip 1200"

#define STOPS "tracestop_event_id=0 lip0=1000 lip2=2000"

static const struct scripted overflow[] = {
    {"a packet that finds the buffer full sets Buffer_Overflow", "", 0, OVER, FILLED, "buffer_overflow=1", &small},
    {"a) while it is set no packet is made", "", 0, OVER "jmp* ip=1 next=3 target=1;far iret ip=1 next=2 target=3", FILLED,
     "buffer_overflow=1", &small},
    {"a.1) LAST_LIP stays", "", 0, OVER, FILLED, "cmprs_lip_high=2222 cmprs_lip_valid=1", &small},
    {"a.1) LAST_CALL_NLIP stays", "cmprs_ret=1", 0, "call ip=1 next=6 target=9;" OVER "call ip=30 next=35 target=40", FILLED,
     "call_nlip=6 nlip_valid=1", &small},
    {"a.2) Pkt_Cnt does not count", "", 0, OVER "jmp* ip=1 next=3 target=9", FILLED, "pkt_cnt=1a", &small},
    {"b) conditional branches do not update TNT_BUFF", "", 0, OVER "jcc ip=1 next=3 target=9 taken", FILLED, "tnt_buff=1", &small},
    {"c) the cycle counter goes on, without PCC", "cycle_acc=1", 0,
     FILL "jmp* ip=1 next=3 target=333300000000;wrmsr ip=5 next=7 msr=76b value=200000;clock tsc=1 cycles=7;insn ip=9 next=a",
     "tip 111100000000 c0; tip 222200000000 c0", "cntp=200007 buffer_overflow=1", &small},
    {"c) after it FUP.BuffOvf takes the count, and no PCC is needed", "cycle_acc=1", 0,
     FILL "jmp* ip=1 next=3 target=333300000000;wrmsr ip=5 next=7 msr=76b value=200000;clock tsc=1 cycles=200;insn ip=9 next=a;insn ip=a next=b",
     "tip 111100000000 c0; tip 222200000000 c0; ovf 9 c2097352", "cntp=0", &cycsmall},
    {"c) without cycle counts in it the counter goes on", "", 0, OVER EMPTY "insn ip=9 next=a", FILLED "; ovf 9", "cntp=64", &small},
    {"range comparisons go on: FilterEn changes, its PGE and PGD are lost", RANGE, IN,
     RANGE_OVER "jmp ip=1200 next=1202 target=5000;jmp ip=5000 next=5002 target=1200;jmp ip=1200 next=1202 target=6000",
     RANGE_FILLED, "filter_en=0 buffer_overflow=1", &slow},
    {"TriggerEn and ContextEn may change, their PGD is lost", "os=0", 0, OVER "far syscall ip=1 next=3 target=9 : cpl=0", FILLED,
     "context_en=0 buffer_overflow=1", &small},
    {"MTCs are dropped", "mtc_en=1", 0, OVER "clock tsc=300 cycles=50;clock tsc=300 cycles=100;insn ip=3 next=5;clock tsc=400 cycles=101",
     FILLED "; ovf 3; mtc 0 03", 0, &small},
    {"not cleared until the buffer is empty", "", 0, OVER "clock tsc=1 cycles=99;insn ip=3 next=5", FILLED, "buffer_overflow=1",
     &small},
    {"not cleared until every byte has left", "", 0, OVER "clock tsc=1 cycles=139;insn ip=3 next=5", FILLED, "buffer_overflow=1",
     &slow},
    {"cleared when the last byte has left", "", 0, OVER "clock tsc=1 cycles=140;insn ip=3 next=5", FILLED "; ovf 3",
     "buffer_overflow=0", &slow},
    {"not cleared until an instruction starts", "", 0, OVER EMPTY "event intr ip=3 target=9 : cpl=0", FILLED, "buffer_overflow=1",
     &small},
    {"not cleared while ContextEn is 0", "os=0", 0, OVER "far syscall ip=1 next=3 target=9 : cpl=0;" EMPTY "insn ip=9 next=b",
     FILLED, "buffer_overflow=1", &small},
    {"not cleared while TriggerEn is 0", "", 0, OVER "wrmsr ip=3 next=5 msr=768 value=d;" EMPTY "insn ip=5 next=7", FILLED,
     "buffer_overflow=1", &small},
    {"cleared naturally: FUP.BuffOvf, the bit goes", "", 0, OVER EMPTY "insn ip=3 next=5", FILLED "; ovf 3", "buffer_overflow=0",
     &small},
    {"compression is cleared before FUP.BuffOvf, which does not set it", "cmprs_ret=1", 0,
     "call ip=1 next=6 target=9;" OVER EMPTY "insn ip=222200000100 next=222200000102", FILLED "; ovf 222200000100",
     "cmprs_lip_valid=0 cmprs_lip_high=0 nlip_valid=0 call_nlip=0", &small},
    {"the address is where the next instruction starts", "", 0, OVER EMPTY "jmp* ip=5000 next=5002 target=9",
     FILLED "; ovf 5000; tip 9", 0, &small},
    {"outcomes from before come before FUP.BuffOvf", "", 0, FILL "jcc ip=1 next=3 target=9 taken;ovf;" EMPTY "insn ip=9 next=b",
     FILLED "; tnt T; ovf 9", "tnt_buff=1", &small},
    {"a full TNT that causes the overflow is kept", "", 0,
     FILL "jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc taken;" EMPTY "insn ip=9 next=b",
     FILLED "; tnt NNNNNN; tnt NNNNNN; tnt NNNNNT; ovf 9", 0, &small},
    {"its cycle count is then FUP.BuffOvf's, which has 0", "cycle_acc=1", 0,
     FILL "jcc;jcc;jcc;jcc;jcc;jcc taken;clock tsc=1 cycles=100;insn ip=9 next=b",
     "tip 111100000000 c0; tip 222200000000 c0; tnt NNNNNT c100; ovf 9 c0", 0, &small},
    {"TraceStop during the overflow waits for FUP.BuffOvf", "tracestop_event_id=0 lip0=1000 lip2=2000", 0,
     OVER "jmp ip=3 next=5 target=1000;insn ip=1000 next=1002;" EMPTY "insn ip=5000 next=5002;jmp* ip=5 next=7 target=9",
     FILLED "; ovf 5000; stop", "trace_active=0 buffer_overflow=0", &small},
    {"and the cycle counter runs on while it waits", "tracestop_event_id=0 lip0=1000 lip2=2000 cycle_acc=1", 0,
     FILL "jmp* ip=1 next=3 target=333300000000;jmp ip=3 next=5 target=1000;clock tsc=1 cycles=150;insn ip=5000 next=5002",
     "tip 111100000000 c0; tip 222200000000 c0; ovf 5000 c150; stop", "trace_active=0", &cycsmall},
    {"FUP.BuffOvf can reach Pkt_Cnt's limit", "", 0, OVER "wrmsr ip=3 next=5 msr=77c value=7fd;" EMPTY "insn ip=5 next=7",
     FILLED "; ovf 5; psb", "pkt_cnt=9", &small},
    {"TriggerEn falls and rises: the PSB comes before FUP.BuffOvf", "", 0,
     OVER "wrmsr ip=3 next=5 msr=768 value=d;wrmsr ip=5 next=7 msr=768 value=200d;insn ip=7 next=9;" EMPTY "insn ip=9 next=b",
     FILLED "; psb; ovf 7", "buffer_overflow=0", &small},
    {"and before a pending TraceSTOP", "tracestop_event_id=0 lip0=1000 lip2=2000", 0,
     OVER "jmp ip=3 next=5 target=1000;wrmsr ip=1000 next=1002 msr=768 value=d;wrmsr ip=5 next=7 msr=768 value=200d;" EMPTY
     "insn ip=5000 next=5002", FILLED "; psb; ovf 5000; stop", "trace_active=0", &small},
    {"a pending TraceSTOP waits for TriggerEn", STOPS, 0,
     OVER "jmp ip=3 next=5 target=1000;wrmsr ip=1000 next=1002 msr=768 value=d;" EMPTY "insn ip=1002 next=1004", FILLED,
     "trace_active=0 buffer_overflow=1", &small},
    {"software clears the bit: a pending TraceSTOP comes", STOPS, 0,
     OVER "jmp ip=3 next=5 target=1000;wrmsr ip=1000 next=1002 msr=769 value=1;insn ip=5002 next=5004", FILLED "; stop",
     "trace_active=0", &small},
    {"enabling again as told, after an overflow that held a TraceStop: it is over [RTIT B 4.2.1] (docs/decisions/0220)", STOPS, 0,
     OVER "jmp ip=3 next=5 target=1000;wrmsr ip=1000 next=1002 msr=768 value=d;wrmsr ip=1002 next=1004 msr=769 value=0;"
     "wrmsr ip=1004 next=1006 msr=77d value=1;insn ip=1006 next=1008;wrmsr ip=1008 next=100a msr=768 value=200d;insn ip=100a next=100c",
     FILLED "; psb; pge 100a", "trace_active=1", &small},
    {"a write of Pkt_Cnt during it makes no PSB: FUP.BuffOvf does", "", 0,
     FILL "ovf;clock tsc=1 cycles=99;wrmsr ip=3 next=5 msr=77c value=800;" EMPTY "insn ip=5 next=7", FILLED "; ovf 5; psb", "pkt_cnt=9",
     &large},
    {"a write of RTIT_CTL drains before its own packets", "", 0, FILL "wrmsr ip=3 next=5 msr=768 value=2005", FILLED "; pgd 5",
     "buffer_overflow=0", &small},
    {"software clears the bit: no FUP.BuffOvf", "", 0, OVER EMPTY "wrmsr ip=3 next=5 msr=769 value=1;jmp* ip=5 next=7 target=9",
     FILLED "; ovf 3; tip 9", "buffer_overflow=0", &small},
    {"software clears the bit while the buffer is full: no FUP.BuffOvf", "", 0,
     OVER "wrmsr ip=3 next=5 msr=769 value=1;" EMPTY "jmp* ip=5 next=7 target=9", FILLED "; tip 9", "buffer_overflow=0", &small},
    {"software sets the bit: nothing gets in, then it clears naturally", "", 0,
     "wrmsr ip=3 next=5 msr=769 value=9;event intr ip=5 target=7 : cpl=0;jmp* ip=7 next=9 target=9", "ovf 7; tip 9",
     "buffer_overflow=0", 0},
    {"a drain while the bit is set ends without clearing it", "", 0, OVER "wrmsr ip=3 next=5 msr=768 value=220d", FILLED,
     "buffer_overflow=1", &small},
    {"and FUP.BuffOvf comes later", "", 0, OVER "wrmsr ip=3 next=5 msr=768 value=220d;insn ip=5 next=7", FILLED "; ovf 5",
     "buffer_overflow=0", &small},
    {"an owed PSB does not come while TriggerEn is 0", STOPS, 0,
     "wrmsr ip=3 next=5 msr=77c value=7f4;" FILL "wrmsr ip=3 next=5 msr=769 value=1;jmp ip=5 next=7 target=1000;insn ip=1000 next=1002",
     FILLED "; stop", "trace_active=0", &small},
    {"a PSB that finds no room is owed (docs/decisions/0213)", "", 0,
     "wrmsr ip=3 next=5 msr=77c value=7f4;" FILL "insn ip=3 next=5;" EMPTY "insn ip=9 next=b", FILLED "; psb; ovf 9",
     "pkt_cnt=c", &small},
    {"TNTs count among the 4 packets behind a PSB that may rest on the old LAST_LIP [RTIT 3.3.9]", "", 0,
     "wrmsr ip=3 next=5 msr=77c value=7fa;jmp* target=123400000000;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;"
     "jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jcc;jmp* target=123400001000",
     "tip 123400000000; psb; tnt NNNNNN; tnt NNNNNN; tnt NNNNNN; tnt NNNNNN; tip 123400001000", "pkt_cnt=14", &large},
    {"the boundary between PacketEn in and out is lost: it goes on outside", RANGE, IN,
     RANGE_OVER "jmp ip=1200 next=1202 target=5000;" EMPTY "insn ip=5000 next=5002;jmp ip=5002 next=5004 target=1200",
     RANGE_FILLED "; ovf 5000; pge 1200", 0, &small},
};

/* LAST_LIP outlives the PSB while the packet that called for it waits [RTIT 3.3.9]. */
static void last_lip_is_cleared_at_most_four_packets_after_a_psb(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &large);
    rig_start(&rig, 0);
    rig_events(&rig, "wrmsr ip=3 next=5 msr=77c value=7fa;jmp* ip=1 next=3 target=123400000000");
    assert_int_equal(rig_read(&rig, MSR_LAST_LIP) >> 32, 1);
    for (int i = 0; i < 4; i++) {
        rig_events(&rig, "jmp* ip=1 next=3 target=123400001000");
        assert_int_equal(rig_read(&rig, MSR_LAST_LIP) >> 32, 1);
    }
    rig_events(&rig, "jmp* ip=1 next=3 target=123400001000");
    cofi_unit_drain(rig.unit);
    size_t psb_end = rig.seen + 7 + 9;
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig.bytes[psb_end + 3 * i], 0xb0); /* compressed */
    assert_int_equal(rig.bytes[psb_end + 12], 0xb2);        /* and not any more */
    rig_close(&rig);
}

static void last_lip_is_cleared_when_the_causing_packet_has_drained(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &large);
    rig_start(&rig, 0);
    rig_events(&rig, "clock tsc=1 cycles=0;wrmsr ip=3 next=5 msr=77c value=7fa;jmp* ip=1 next=3 target=123400000000;"
                     "clock tsc=1 cycles=100;jmp* ip=1 next=3 target=123400001000");
    cofi_unit_drain(rig.unit);
    assert_int_equal(rig.bytes[rig.seen + 7 + 9], 0xb2);
    rig_close(&rig);
}

/* What is saved now must be what another unit goes on with [RTIT 3.3.13]. */
static void after_a_drain_last_lip_shows_the_clearing(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &large);
    rig_start(&rig, 0);
    rig_events(&rig, "wrmsr ip=3 next=5 msr=77c value=7fa;jmp* ip=1 next=3 target=123400000000");
    assert_int_equal(rig_read(&rig, MSR_LAST_LIP) >> 32, 1);
    cofi_unit_drain(rig.unit);
    assert_int_equal(rig_read(&rig, MSR_LAST_LIP), 0);
    rig_close(&rig);
}

/* Pkt_Cnt keeps its value until the PSB that it called for has room (docs/decisions/0213). */
static void a_psb_without_room_leaves_pkt_cnt(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &small);
    rig_start(&rig, 0);
    rig_events(&rig, "wrmsr ip=3 next=5 msr=77c value=7f4;" FILL);
    assert_int_equal(rig_read(&rig, MSR_STATUS) & 8, 8);
    assert_int_equal(rig_read(&rig, MSR_PKT_CNT), 0x802);
    rig_close(&rig);
}

/* A WRMSR that faults has not happened [RTIT 3.3.2, RTIT 3.3.1]. */
static void a_write_of_ctl_that_faults_does_not_drain(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &small);
    rig_start(&rig, 0);
    uint64_t offset = rig_read(&rig, MSR_OFFSET);
    rig_events(&rig, FILL);
    assert_int_equal(cofi_unit_wrmsr(rig.unit, MSR_CTL, 0x1000d), COFI_ERR_GP);
    struct cofi_event write = {.kind = COFI_EV_WRMSR, .msr = MSR_CTL, .value = 0x2d, .ip = 3, .next = 5};
    assert_int_equal(cofi_unit_event(rig.unit, &write), COFI_ERR_GP);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), offset);
    rig_write(&rig, MSR_CTL, 0x200d);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), offset + 14);
    rig_close(&rig);
}

/* No TraceSTOP while TriggerEn is 0, whoever ended the overflow [RTIT Table 17]. */
static void a_held_tracestop_needs_trigger_en(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &small);
    rig_fields(&rig, STOPS);
    rig_enable(&rig);
    rig_packets(&rig);
    rig_events(&rig, OVER "jmp ip=3 next=5 target=1004");
    rig_write(&rig, MSR_STATUS, 1); /* written from outside: no instruction starts between the two */
    rig_write(&rig, MSR_CTL, 0xd);
    rig_events(&rig, "insn ip=1004 next=1006");
    assert_packets(&rig, FILLED);
    rig_close(&rig);
}

/* The narrow door: what comes after an overflow has its address from the last tip(). */
static void the_narrow_door_overflows_and_goes_on(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig, &small);
    rig_start(&rig, 0);
    rig_events(&rig, "clock tsc=1 cycles=0");
    assert_int_equal(cofi_unit_tip(rig.unit, 0x111100000000), 0);
    assert_int_equal(cofi_unit_tip(rig.unit, 0x222200000000), 0);
    assert_int_equal(cofi_unit_tip(rig.unit, 0x333300000000), 0); /* no room */
    assert_int_equal(cofi_unit_tnt(rig.unit, 5, 3), 0);           /* lost: the buffer is not empty */
    assert_int_equal(cofi_unit_tip(rig.unit, 0x1000), 0);         /* lost, but tells where it goes on */
    rig_events(&rig, "clock tsc=1 cycles=100");
    assert_int_equal(cofi_unit_tnt(rig.unit, 1, 2), 0);
    assert_int_equal(cofi_unit_tip(rig.unit, 0x2000), 0);
    assert_packets(&rig, FILLED "; ovf 1000; tnt NT; tip 2000");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_lip_is_cleared_at_most_four_packets_after_a_psb),
        cmocka_unit_test(last_lip_is_cleared_when_the_causing_packet_has_drained),
        cmocka_unit_test(the_narrow_door_overflows_and_goes_on),
        cmocka_unit_test(after_a_drain_last_lip_shows_the_clearing),
        cmocka_unit_test(a_psb_without_room_leaves_pkt_cnt),
        cmocka_unit_test(a_held_tracestop_needs_trigger_en),
        cmocka_unit_test(a_write_of_ctl_that_faults_does_not_drain),
    };
    ADD_ROWS(overflow);
    ADD_TESTS(tests);
    return run_suite();
}

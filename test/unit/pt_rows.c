/* SPDX-License-Identifier: MIT
 * The packet generation tables, a test a row: enables and state before, one event, the packets it makes.
 * [PTREF 6.1; SDM Packet Generation under Different Enable Conditions; SDM PwrEvtEn and PTWEn Packet
 * Generation under Different Enable Conditions]. Expected packets are transcribed from those tables. */
#include "pt_rig.h"

#include <stdlib.h>
#include <string.h>

/* A filter over [401000, 401fff] and a TraceStop range over [600000, 600fff], where ctl says so. */
#define FILTER ADDR_CFG(0, 1)
#define STOP ADDR_CFG(1, 2)
enum { IN = 0x401000, OUT = 0x500000, STOPS = 0x600000 };
#define KERNEL UINT64_C(0xffffffff81000000)

/* Context changes: 0 is "as it was", so values are one more. */
struct change {
    uint8_t cpl, mode, vmx, enclave, intx, iflag, smm;
    uint8_t conceal;
    uint64_t cr3, vmcs;
};

struct row {
    const char *name;
    uint64_t ctl;
    struct change before;
    uint64_t ip;
    struct cofi_event event;
    struct change after;
    const char *packets;
};

#define BASE_CTL (TRACE_EN | BRANCH_EN)
#define U (BASE_CTL | USER)
#define K (BASE_CTL | OS)
#define UK (BASE_CTL | USER | OS)
#define NOBR (TRACE_EN | USER | OS)
#define CPL(n) .cpl = (n) + 1
#define IN_KERNEL {CPL(0)}

#define EV(k, ip_, ...) {.kind = COFI_EV_##k, .ip = ip_, .next = ip_ + 2, .vector = COFI_NO_VECTOR, __VA_ARGS__}
#define NEAR(k, ip_, target_) EV(k, ip_, .target = target_)
#define JCC(ip_, target_, taken_) EV(JCC, ip_, .target = target_, .taken = taken_)
#define FAR(k, ip_, target_, ...) EV(FAR, ip_, .cause = COFI_FAR_##k, .target = target_, ##__VA_ARGS__)
#define INT(k, ip_, target_, ...) EV(EVENT, ip_, .cause = COFI_CAUSE_##k, .target = target_, ##__VA_ARGS__)
#define CR3(ip_) EV(MOV_CR3, ip_)
#define CTL(ip_, value_) EV(WRMSR, ip_, .msr = MSR_CTL, .value = value_)

static const struct row rows[] = {
    /* 6.1 enabling and disabling: see pt_enable.c for PSB and TraceStop */
    {"other_instruction_makes_nothing", UK, {0}, IN, EV(INSN, IN), {0}, ""},
    {"wrmsr_clearing_trace_en_with_packets_is_fup_clip_and_pgd", UK, {0}, IN, CTL(IN, UK & ~TRACE_EN), {0},
     "fup(401000) tip.pgd()"},
    {"wrmsr_clearing_trace_en_without_packets_is_nothing", U, IN_KERNEL, KERNEL, CTL(KERNEL, U & ~TRACE_EN), {0}, ""},
    {"wrmsr_clearing_trace_en_with_branch_en_0_is_nothing", NOBR, {0}, IN, CTL(IN, 0), {0}, ""},

    /* [PTREF 6.2] MOV CR3 */
    {"mov_cr3_out_of_context_is_nothing", U, IN_KERNEL, KERNEL, CR3(KERNEL), {.cr3 = 0x2000}, ""},
    {"mov_cr3_out_of_the_filter_in_context_is_pip", UK | FILTER, {0}, OUT, CR3(OUT), {.cr3 = 0x2000}, "pip(2000)"},
    {"mov_cr3_out_of_the_filter_in_a_stop_range_is_pip_and_tracestop", UK | FILTER | STOP, IN_KERNEL, OUT, CR3(STOPS),
     {.cr3 = 0x2000}, "pip(2000) stop"},
    {"mov_cr3_into_context_is_pip_and_pge_nlip", K | CR3_FILTER, IN_KERNEL, IN, CR3(IN), {.cr3 = 0x5000},
     "pip(5000) mode.exec(64) tip.pge(401002)"},
    {"mov_cr3_out_of_context_is_pgd_without_ip", K | CR3_FILTER, {CPL(0), .cr3 = 0x5000}, IN, CR3(IN), {.cr3 = 0x2000},
     "tip.pgd()"},
    {"mov_cr3_in_a_stop_range_is_pip_pgd_tracestop", K | STOP, IN_KERNEL, IN, CR3(STOPS), {.cr3 = 0x2000},
     "pip(2000) tip.pgd(600002) stop"},
    {"mov_cr3_with_packets_is_pip", UK, IN_KERNEL, IN, CR3(IN), {.cr3 = 0x2000}, "pip(2000)"},
    {"mov_cr3_of_the_same_value_is_pip_too", UK, IN_KERNEL, IN, CR3(IN), {0}, "pip(1000)"},
    {"mov_cr3_with_os_0_makes_no_pip", U | CR3_FILTER, {.cr3 = 0x5000}, IN, CR3(IN), {.cr3 = 0x5000}, ""},
    {"mov_cr3_with_branch_en_0_still_is_pip", NOBR, IN_KERNEL, IN, CR3(IN), {.cr3 = 0x2000}, "pip(2000)"},

    /* [SDM Direct Transfer COFI] */
    {"direct_jmp_outside_is_nothing", UK | FILTER, {0}, OUT, NEAR(JMP, OUT, OUT + 64), {0}, ""},
    {"direct_jmp_inside_is_nothing", UK, {0}, IN, NEAR(JMP, IN, IN + 64), {0}, ""},
    {"direct_jmp_into_the_filter_is_pge", UK | FILTER, {0}, OUT, NEAR(JMP, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},
    {"direct_jmp_out_of_the_filter_is_pgd_with_target", UK | FILTER, {0}, IN, NEAR(JMP, IN, OUT), {0}, "tip.pgd(500000)"},
    {"direct_jmp_into_a_stop_range_is_pgd_and_tracestop", UK | STOP, {0}, IN, NEAR(JMP, IN, STOPS), {0},
     "tip.pgd(600000) stop"},
    {"direct_jmp_outside_into_a_stop_range_is_tracestop", UK | FILTER | STOP, {0}, OUT, NEAR(JMP, OUT, STOPS), {0}, "stop"},
    {"direct_jmp_out_of_context_into_a_stop_range_is_nothing", U | STOP, IN_KERNEL, IN, NEAR(JMP, IN, STOPS), {0}, ""},
    {"direct_call_out_of_the_filter_is_pgd_with_target", UK | FILTER, {0}, IN, NEAR(CALL, IN, OUT), {0}, "tip.pgd(500000)"},
    {"direct_call_into_the_filter_is_pge", UK | FILTER, {0}, OUT, NEAR(CALL, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},

    /* 6.2 conditional */
    {"taken_jcc_outside_is_nothing", UK | FILTER, {0}, OUT, JCC(OUT, OUT + 64, true), {0}, ""},
    {"taken_jcc_into_the_filter_is_pge", UK | FILTER, {0}, OUT, JCC(OUT, IN, true), {0}, "mode.exec(64) tip.pge(401000)"},
    {"taken_jcc_out_of_the_filter_is_pgd_without_ip_and_bit", UK | FILTER, {0}, IN, JCC(IN, OUT, true), {0}, "tip.pgd()"},
    {"taken_jcc_into_a_stop_range_is_pgd_without_ip_and_tracestop", UK | STOP, {0}, IN, JCC(IN, STOPS, true), {0},
     "tip.pgd() stop"},
    {"taken_jcc_outside_into_a_stop_range_is_tracestop", UK | FILTER | STOP, {0}, OUT, JCC(OUT, STOPS, true), {0}, "stop"},
    {"not_taken_jcc_with_a_target_outside_changes_nothing", UK | FILTER, {0}, IN, JCC(IN, OUT, false), {0}, ""},
    {"not_taken_jcc_outside_with_a_target_inside_is_nothing", UK | FILTER, {0}, OUT, JCC(OUT, IN, false), {0}, ""},

    /* [SDM Indirect Transfer COFI] */
    {"indirect_jmp_outside_is_nothing", UK | FILTER, {0}, OUT, NEAR(JMP_IND, OUT, OUT + 64), {0}, ""},
    {"indirect_jmp_into_the_filter_is_pge", UK | FILTER, {0}, OUT, NEAR(JMP_IND, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},
    {"indirect_jmp_out_of_the_filter_is_pgd_with_target", UK | FILTER, {0}, IN, NEAR(JMP_IND, IN, OUT), {0}, "tip.pgd(500000)"},
    {"indirect_jmp_into_a_stop_range_is_pgd_and_tracestop", UK | STOP, {0}, IN, NEAR(JMP_IND, IN, STOPS), {0},
     "tip.pgd(600000) stop"},
    {"indirect_jmp_inside_is_tip", UK, {0}, IN, NEAR(JMP_IND, IN, OUT), {0}, "tip(500000)"},
    {"indirect_call_inside_is_tip", UK, {0}, IN, NEAR(CALL_IND, IN, OUT), {0}, "tip(500000)"},
    {"uncompressed_ret_inside_is_tip", UK, {0}, IN, NEAR(RET, IN, OUT), {0}, "tip(500000)"},
    {"uncompressed_ret_out_of_the_filter_is_pgd_with_target", UK | FILTER, {0}, IN, NEAR(RET, IN, OUT), {0}, "tip.pgd(500000)"},
    {"ret_into_the_filter_is_pge", UK | FILTER, {0}, OUT, NEAR(RET, OUT, IN), {0}, "mode.exec(64) tip.pge(401000)"},

    /* [SDM Far Transfer COFI]: 0-0, 0-1, 1-0, 1-1 */
    {"far_transfer_out_of_context_is_nothing", U, IN_KERNEL, KERNEL, FAR(IRET, KERNEL, KERNEL + 64), {0}, ""},
    {"far_transfer_outside_the_filter_is_nothing", UK | FILTER, {0}, OUT, FAR(SYSCALL, OUT, KERNEL), {CPL(0)}, ""},
    {"task_switch_outside_the_filter_is_pip", UK | FILTER, {0}, OUT, FAR(JMP, OUT, OUT + 64), {.cr3 = 0x7000}, "pip(7000)"},
    {"far_transfer_outside_into_a_stop_range_is_tracestop", UK | FILTER | STOP, {0}, OUT, FAR(JMP, OUT, STOPS), {0}, "stop"},
    {"sysret_into_context_is_pge", U, IN_KERNEL, KERNEL, FAR(SYSRET, KERNEL, IN), {CPL(3)}, "mode.exec(64) tip.pge(401000)"},
    {"task_switch_into_the_filter_is_pip_and_pge", UK | FILTER, {0}, OUT, FAR(JMP, OUT, IN), {.cr3 = 0x7000},
     "pip(7000) mode.exec(64) tip.pge(401000)"},
    {"iret_into_32_bit_context_has_its_mode", U, IN_KERNEL, KERNEL, FAR(IRET, KERNEL, IN), {CPL(3), .mode = 33},
     "mode.exec(32) tip.pge(401000)"},
    {"syscall_out_of_context_is_pgd_without_ip", U, {0}, IN, FAR(SYSCALL, IN, KERNEL), {CPL(0)}, "tip.pgd()"},
    {"syscall_out_of_the_filter_is_pgd_with_target", UK | FILTER, {0}, IN, FAR(SYSCALL, IN, KERNEL), {CPL(0)},
     "tip.pgd(ffffffff81000000)"},
    {"task_switch_out_of_the_filter_is_pip_and_pgd", UK | FILTER, {0}, IN, FAR(CALL, IN, OUT), {.cr3 = 0x7000},
     "pip(7000) tip.pgd(500000)"},
    {"far_jmp_into_a_stop_range_is_pgd_and_tracestop", UK | STOP, {0}, IN, FAR(JMP, IN, STOPS), {0}, "tip.pgd(600000) stop"},
    {"syscall_inside_is_tip_without_fup", UK, {0}, IN, FAR(SYSCALL, IN, KERNEL), {CPL(0)}, "tip(ffffffff81000000)"},
    {"sysret_inside_is_tip_without_fup", UK, IN_KERNEL, KERNEL, FAR(SYSRET, KERNEL, IN), {CPL(3)}, "tip(401000)"},
    {"sysenter_inside_is_tip", UK, {0}, IN, FAR(SYSENTER, IN, KERNEL), {CPL(0)}, "tip(ffffffff81000000)"},
    {"sysexit_inside_is_tip", UK, IN_KERNEL, KERNEL, FAR(SYSEXIT, KERNEL, IN), {CPL(3)}, "tip(401000)"},
    {"uiret_inside_is_tip", UK, {0}, IN, FAR(UIRET, IN, OUT), {0}, "tip(500000)"},
    {"eretu_inside_is_tip", UK, IN_KERNEL, KERNEL, FAR(ERETU, KERNEL, IN), {CPL(3)}, "tip(401000)"},
    {"far_ret_to_32_bit_has_mode_exec_and_tip", UK, {0}, IN, FAR(RET, IN, OUT), {.mode = 33}, "mode.exec(32) tip(500000)"},
    {"far_call_to_16_bit_has_mode_exec_and_tip", UK, {.mode = 33}, IN, FAR(CALL, IN, OUT), {.mode = 17},
     "mode.exec(16) tip(500000)"},
    {"task_switch_inside_is_pip_mode_exec_tip", UK, {0}, IN, FAR(IRET, IN, OUT), {.cr3 = 0x7000, .mode = 33},
     "pip(7000) mode.exec(32) tip(500000)"},

    /* [PTREF 6.3; SDM Packet Enable (PacketEn); SDM Branch Enable (BranchEn); PTREF 3.2] */
    {"interrupt_out_of_context_is_nothing", U, IN_KERNEL, KERNEL, INT(INTR, KERNEL, KERNEL + 64), {0}, ""},
    {"interrupt_outside_the_filter_is_nothing", UK | FILTER, {0}, OUT, INT(INTR, OUT, KERNEL), {CPL(0)}, ""},
    {"interrupt_outside_into_a_stop_range_is_tracestop", UK | FILTER | STOP, {0}, OUT, INT(INTR, OUT, STOPS), {0}, "stop"},
    {"interrupt_by_task_gate_outside_is_pip", UK | FILTER, {0}, OUT, INT(INTR, OUT, KERNEL), {CPL(0), .cr3 = 0x7000},
     "pip(7000)"},
    {"interrupt_into_context_is_pge", K, {CPL(3)}, IN, INT(INTR, IN, KERNEL), {CPL(0)}, "mode.exec(64) tip.pge(ffffffff81000000)"},
    {"interrupt_out_of_context_from_inside_is_fup_pgd", U, {0}, IN, INT(INTR, IN, KERNEL), {CPL(0)}, "fup(401000) tip.pgd()"},
    {"interrupt_out_of_the_filter_is_fup_pgd_with_handler", UK | FILTER, {0}, IN, INT(INTR, IN, KERNEL), {CPL(0)},
     "fup(401000) tip.pgd(ffffffff81000000)"},
    {"interrupt_into_a_stop_range_is_fup_pgd_tracestop", UK | STOP, {0}, IN, INT(INTR, IN, STOPS), {0},
     "fup(401000) tip.pgd(600000) stop"},
    {"interrupt_inside_is_fup_nlip_tip", UK, {0}, IN, INT(INTR, IN, KERNEL), {CPL(0)}, "fup(401000) tip(ffffffff81000000)"},
    {"nmi_inside_is_fup_nlip_tip", UK, {0}, IN, INT(NMI, IN, KERNEL), {CPL(0)}, "fup(401000) tip(ffffffff81000000)"},
    {"trap_inside_is_fup_nlip_tip", UK, {0}, IN, INT(TRAP, IN, KERNEL), {CPL(0)}, "fup(401000) tip(ffffffff81000000)"},
    {"fault_inside_is_fup_clip_tip", UK, {0}, IN, INT(FAULT, IN, KERNEL), {CPL(0)}, "fup(401000) tip(ffffffff81000000)"},
    {"fault_by_task_gate_to_32_bit_is_fup_pip_mode_tip", UK, {0}, IN, INT(FAULT, IN, OUT), {CPL(0), .cr3 = 0x7000, .mode = 33},
     "fup(401000) pip(7000) mode.exec(32) tip(500000)"},
    {"machine_check_trap_is_fup_tip", UK, {0}, IN, INT(MC_TRAP, IN, KERNEL), {CPL(0)}, "fup(401000) tip(ffffffff81000000)"},
    {"machine_check_fault_is_fup_tip", UK, {0}, IN, INT(MC_FAULT, IN, KERNEL), {CPL(0)}, "fup(401000) tip(ffffffff81000000)"},
    {"user_interrupt_inside_is_fup_tip", UK, {0}, IN, INT(UINTR, IN, OUT), {0}, "fup(401000) tip(500000)"},
    {"int_n_inside_is_fup_clip_tip", UK, {0}, IN, FAR(INT, IN, KERNEL, .vector = 0x80), {CPL(0)},
     "fup(401000) tip(ffffffff81000000)"},
    {"int_n_out_of_context_is_fup_clip_pgd", U, {0}, IN, FAR(INT, IN, KERNEL, .vector = 3), {CPL(0)}, "fup(401000) tip.pgd()"},
    {"int_n_into_context_is_pge_without_fup", K, {CPL(3)}, IN, FAR(INT, IN, KERNEL, .vector = 3), {CPL(0)},
     "mode.exec(64) tip.pge(ffffffff81000000)"},
    {"smi_inside_is_fup_pgd", UK, {0}, IN, INT(SMI, IN, 0x8000), {CPL(0), .smm = 2}, "fup(401000) tip.pgd()"},
    {"smi_outside_is_nothing", U, IN_KERNEL, KERNEL, INT(SMI, KERNEL, 0x8000), {.smm = 2}, ""},
    {"rsm_that_restores_trace_en_is_an_enable", 0, IN_KERNEL, 0x8000,
     FAR(RSM, 0x8000, IN, .msr = MSR_CTL, .control = UK), {CPL(3)}, "psb pip(1000) cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(401000)"},
    {"init_of_the_boot_processor_inside_is_fup_pip_mode_tip", UK, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0},
     "fup(401000) pip(0) mode.exec(16) tip(fffffff0)"},
    {"init_of_the_boot_processor_out_of_context_is_fup_pgd", U, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "fup(401000) tip.pgd()"},
    {"init_of_the_boot_processor_out_of_the_filter_is_fup_pip_pgd", UK | FILTER, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0},
     "fup(401000) pip(0) tip.pgd(fffffff0)"},
    {"init_of_the_boot_processor_into_context_is_pip_pge", K, {CPL(3)}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0},
     "pip(0) mode.exec(16) tip.pge(fffffff0)"},
    {"init_of_the_boot_processor_outside_the_filter_is_pip", UK | FILTER, {0}, OUT, INT(INIT_BSP, OUT, 0xfffffff0), {0}, "pip(0)"},
    {"init_of_an_application_processor_inside_is_fup_pip", UK, {0}, IN, INT(INIT_AP, IN, 0), {0}, "fup(401000) pip(0)"},
    {"init_of_an_application_processor_outside_is_nothing", U, IN_KERNEL, KERNEL, INT(INIT_AP, KERNEL, 0), {0}, ""},
    {"sipi_into_context_is_pge", K, {CPL(3)}, IN, INT(SIPI, IN, 0x9000, .vector = 9), {CPL(0), .mode = 17},
     "mode.exec(16) tip.pge(9000)"},

    /* [PTREF 6.4, 2.8; SDM Tracing In VMX Operation; SDM VMX-Specific Packets and VMCS Controls; SDM VMCS Packet; SDM
     * Managing Trace Packet Generation Across VMX Transitions; SDM Failed VM Entry; SDM Host-Only Tracing; SDM
     * Guest-Only Tracing; SDM System-Wide Tracing] */
    {"vm_exit_inside_is_fup_pip_tip", UK, {CPL(0), .vmx = 3, .cr3 = 0x3000}, IN, INT(VMEXIT, IN, KERNEL), {.vmx = 2, .cr3 = 0x1000},
     "fup(401000) pip(1000) tip(ffffffff81000000)"},
    {"vm_exit_concealed_makes_no_pip", UK, {CPL(0), .vmx = 3, .cr3 = 0x3000, .conceal = COFI_CONCEAL_EXITS}, IN,
     INT(VMEXIT, IN, KERNEL), {.vmx = 2, .cr3 = 0x1000}, "fup(401000) tip(ffffffff81000000)"},
    {"vm_exit_out_of_context_is_fup_pgd", U, {CPL(3), .vmx = 3}, IN, INT(VMEXIT, IN, KERNEL), {CPL(0), .vmx = 2}, "fup(401000) tip.pgd()"},
    {"vm_exit_out_of_the_filter_is_fup_pip_pgd", UK | FILTER, {CPL(0), .vmx = 3}, IN, INT(VMEXIT, IN, KERNEL), {.vmx = 2},
     "fup(401000) pip(1000) tip.pgd(ffffffff81000000)"},
    {"vm_exit_into_context_is_pip_pge", K, {CPL(3), .vmx = 3}, IN, INT(VMEXIT, IN, KERNEL), {CPL(0), .vmx = 2},
     "pip(1000) mode.exec(64) tip.pge(ffffffff81000000)"},
    {"vm_exit_outside_the_filter_is_pip", UK | FILTER, {CPL(0), .vmx = 3}, OUT, INT(VMEXIT, OUT, KERNEL), {.vmx = 2}, "pip(1000)"},
    {"vm_exit_whose_list_clears_trace_en_is_fup_pip_pgd", UK, {CPL(0), .vmx = 3, .cr3 = 0x3000}, IN,
     INT(VMEXIT, IN, KERNEL, .msr = MSR_CTL, .control = 0), {.vmx = 2, .cr3 = 0x1000}, "fup(401000) pip(1000) tip.pgd()"},
    {"vm_exit_whose_list_sets_trace_en_is_an_enable", 0, {CPL(0), .vmx = 3}, IN,
     INT(VMEXIT, IN, KERNEL, .msr = MSR_CTL, .control = K), {.vmx = 2},
     "psb pip(1000) vmcs(ffffffffff000) cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(ffffffff81000000)"},
    {"vm_entry_inside_is_pip_nr_tip_without_fup", UK, {CPL(0), .vmx = 2}, IN, FAR(VMENTRY, IN, KERNEL), {.vmx = 3, .cr3 = 0x3000},
     "pip(3000,nr) tip(ffffffff81000000)"},
    {"vm_entry_concealed_makes_no_pip", UK, {CPL(0), .vmx = 2, .conceal = COFI_CONCEAL_ENTRIES}, IN, FAR(VMENTRY, IN, KERNEL),
     {.vmx = 3, .cr3 = 0x3000}, "tip(ffffffff81000000)"},
    {"vm_entry_to_a_guest_that_conceals_vmx_has_nr_0", UK, {CPL(0), .vmx = 2, .conceal = COFI_CONCEAL_VMX}, IN,
     FAR(VMENTRY, IN, KERNEL), {.vmx = 3, .cr3 = 0x3000}, "pip(3000) tip(ffffffff81000000)"},
    {"vm_entry_into_the_filter_is_pip_pge", UK | FILTER, {CPL(0), .vmx = 2}, OUT, FAR(VMENTRY, OUT, IN), {.vmx = 3},
     "pip(1000,nr) mode.exec(64) tip.pge(401000)"},
    {"vm_entry_out_of_the_filter_is_pip_pgd", UK | FILTER, {CPL(0), .vmx = 2}, IN, FAR(VMENTRY, IN, OUT), {.vmx = 3},
     "pip(1000,nr) tip.pgd(500000)"},
    {"vm_entry_into_a_stop_range_is_pip_pgd_tracestop", UK | STOP, {CPL(0), .vmx = 2}, IN, FAR(VMENTRY, IN, STOPS), {.vmx = 3},
     "pip(1000,nr) tip.pgd(600000) stop"},
    {"vm_entry_into_context_is_pge", U, {CPL(0), .vmx = 2}, IN, FAR(VMENTRY, IN, OUT), {CPL(3), .vmx = 3},
     "mode.exec(64) tip.pge(500000)"},
    {"vm_entry_whose_list_clears_trace_en_is_pip_pgd", UK, {CPL(0), .vmx = 2}, IN,
     FAR(VMENTRY, IN, OUT, .msr = MSR_CTL, .control = 0), {.vmx = 3, .cr3 = 0x3000}, "pip(3000,nr) tip.pgd()"},
    {"vm_entry_whose_list_sets_trace_en_is_an_enable", 0, {CPL(0), .vmx = 2}, IN,
     FAR(VMENTRY, IN, OUT, .msr = MSR_CTL, .control = U), {CPL(3), .vmx = 3},
     "psb vmcs(ffffffffff000) cbr(24) mode.tsx(commit) psbend mode.exec(64) tip.pge(500000)"},
    {"vm_entry_that_fails_early_is_tip_to_the_next_instruction", UK, {CPL(0), .vmx = 2}, IN, FAR(VMENTRY, IN, IN + 2), {0},
     "tip(401002)"},
    {"vmptrld_is_vmcs", UK, {CPL(0), .vmx = 2}, IN, EV(VMPTRLD, IN), {.vmcs = 0x123456000}, "vmcs(123456000)"},
    {"vmptrld_out_of_context_is_nothing", U, {CPL(0), .vmx = 2}, IN, EV(VMPTRLD, IN), {.vmcs = 0x123456000}, ""},
    {"vmptrld_with_branch_en_0_is_vmcs", NOBR, {CPL(0), .vmx = 2}, IN, EV(VMPTRLD, IN), {.vmcs = 0x123456000}, "vmcs(123456000)"},

    /* [SDM Intel Software Guard Extensions (SGX)] */
    {"eenter_of_a_production_enclave_is_fup_pgd", UK, {0}, IN, FAR(EENTER, IN, OUT), {.enclave = 2}, "fup(401000) tip.pgd()"},
    {"eexit_of_a_production_enclave_is_pge", UK, {.enclave = 2}, IN, FAR(EEXIT, IN, OUT), {.enclave = 1},
     "mode.exec(64) tip.pge(500000)"},
    {"aex_of_a_production_enclave_is_pge", UK, {.enclave = 2}, IN, INT(AEX, IN, OUT), {.enclave = 1}, "mode.exec(64) tip.pge(500000)"},
    {"eenter_of_a_debug_enclave_is_fup_tip", UK, {0}, IN, FAR(EENTER, IN, OUT), {0}, "fup(401000) tip(500000)"},
    {"eexit_of_a_debug_enclave_is_fup_tip", UK, {0}, IN, FAR(EEXIT, IN, OUT), {0}, "fup(401000) tip(500000)"},
    {"aex_of_a_debug_enclave_is_fup_tip", UK, {0}, IN, INT(AEX, IN, OUT), {0}, "fup(401000) tip(500000)"},
    {"eenter_of_a_debug_enclave_out_of_the_filter_is_fup_pgd", UK | FILTER, {0}, IN, FAR(EENTER, IN, OUT), {0},
     "fup(401000) tip.pgd(500000)"},
    {"eenter_of_a_debug_enclave_into_the_filter_is_pge", UK | FILTER, {0}, OUT, FAR(EENTER, OUT, IN), {0},
     "mode.exec(64) tip.pge(401000)"},

    /* [SDM TSX Packet Scenarios; SDM Intel® Transactional Synchronization Extensions (Intel® TSX)] */
    {"xbegin_is_mode_tsx_fup", UK, {0}, IN, EV(XBEGIN, IN), {.intx = 2}, "mode.tsx(begin) fup(401000)"},
    {"xend_is_mode_tsx_fup", UK, {.intx = 2}, IN, EV(XEND, IN), {.intx = 1}, "mode.tsx(commit) fup(401000)"},
    {"nested_xbegin_is_nothing", UK, {.intx = 2}, IN, EV(XBEGIN, IN), {.intx = 2}, ""},
    {"abort_inside_is_mode_tsx_fup_tip", UK, {.intx = 2}, IN, EV(XABORT, IN, .target = OUT), {.intx = 1},
     "mode.tsx(abort) fup(401000) tip(500000)"},
    {"abort_out_of_the_filter_is_mode_tsx_fup_pgd", UK | FILTER, {.intx = 2}, IN, EV(XABORT, IN, .target = OUT), {.intx = 1},
     "mode.tsx(abort) fup(401000) tip.pgd(500000)"},
    {"abort_into_a_stop_range_ends_with_tracestop", UK | STOP, {.intx = 2}, IN, EV(XABORT, IN, .target = STOPS), {.intx = 1},
     "mode.tsx(abort) fup(401000) tip.pgd(600000) stop"},
    {"abort_into_the_filter_is_mode_tsx_pge", UK | FILTER, {.intx = 2}, OUT, EV(XABORT, OUT, .target = IN), {.intx = 1},
     "mode.tsx(abort) mode.exec(64) tip.pge(401000)"},
    {"abort_outside_is_mode_tsx", UK | FILTER, {.intx = 2}, OUT, EV(XABORT, OUT, .target = OUT + 64), {.intx = 1}, "mode.tsx(abort)"},
    {"xbegin_outside_the_filter_is_mode_tsx_alone", UK | FILTER, {0}, OUT, EV(XBEGIN, OUT), {.intx = 2}, "mode.tsx(begin)"},
    {"xbegin_out_of_context_is_nothing", U, IN_KERNEL, IN, EV(XBEGIN, IN), {.intx = 2}, ""},
    {"xbegin_with_branch_en_0_is_nothing", NOBR, {0}, IN, EV(XBEGIN, IN), {.intx = 2}, ""},

    /* [PTREF 6.5] */
    {"mwait_in_context_is_mwait_pwre_exstop_fup", UK | PWR_EVT_EN, IN_KERNEL, IN,
     EV(MWAIT, IN, .value = UINT64_C(0x100000060), .size = 6), {0}, "mwait(60,1) pwre(c6.0) exstopip fup(401000)"},
    {"mwait_out_of_context_is_pwre_exstop", U | PWR_EVT_EN, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x60, .size = 6), {0},
     "pwre(c6.0) exstop"},
    {"mwait_with_an_event_pending_wakes_at_once", UK | PWR_EVT_EN | TSC_EN | MTC_EN, IN_KERNEL, IN,
     EV(MWAIT, IN, .value = 0x21, .size = 3, .taken = true), {0},
     "pwre(c3.1) exstopip fup(401000) tsc(0) tma(0,0) cbr(24) pwrx(c3,c3,0)"},
    {"mwait_to_c0_is_nothing", UK | PWR_EVT_EN, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0xf0), {0}, ""},
    {"mwait_without_pwr_evt_en_is_nothing", UK, IN_KERNEL, IN, EV(MWAIT, IN, .value = 0x60, .size = 6), {0}, ""},
    {"hlt_in_context_is_pwre_exstop_fup", UK | PWR_EVT_EN, IN_KERNEL, IN, EV(SLEEP, IN, .size = 1), {0},
     "pwre(c1.0) exstopip fup(401000)"},
    {"hlt_out_of_context_is_pwre_exstop", U | PWR_EVT_EN, IN_KERNEL, IN, EV(SLEEP, IN, .size = 1), {0}, "pwre(c1.0) exstop"},
    {"shutdown_is_pwre_exstop_fup", UK | PWR_EVT_EN, IN_KERNEL, IN, INT(SHUTDOWN, IN, 0), {0}, "pwre(c1.0) exstopip fup(401000)"},
    {"init_of_an_application_processor_ends_in_pwre_exstop", UK | PWR_EVT_EN, {0}, IN, INT(INIT_AP, IN, 0), {0},
     "fup(401000) pip(0) pwre(c1.0) exstopip fup(401000)"},
    {"hardware_duty_cycling_is_pwre_hw_exstop_nlip", UK | PWR_EVT_EN, {0}, IN, EV(SLEEP, IN, .size = 6, .cause = 1), {0},
     "pwre(c6.0,hw) exstopip fup(401000)"},
    {"wake_by_interrupt_is_tsc_tma_cbr_pwrx", UK | PWR_EVT_EN | TSC_EN | MTC_EN, {0}, IN,
     EV(WAKE, IN, .cause = 1, .size = 1, .value = 6, .tsc = 840), {0}, "tsc(840) tma(10,0) cbr(24) pwrx(c1,c6,1)"},
    {"wake_by_a_store_has_reason_4", U | PWR_EVT_EN, IN_KERNEL, IN, EV(WAKE, IN, .cause = 4, .size = 1), {0}, "cbr(24) pwrx(c1,c1,4)"},
    {"wake_by_hardware_has_reason_8", UK | PWR_EVT_EN, {0}, IN, EV(WAKE, IN, .cause = 8, .size = 6), {0}, "cbr(24) pwrx(c6,c6,8)"},
    {"wake_by_nmi_has_reason_0", UK | PWR_EVT_EN, {0}, IN, EV(WAKE, IN, .size = 6), {0}, "cbr(24) pwrx(c6,c6,0)"},
    {"wake_without_pwr_evt_en_is_time_only", UK | TSC_EN | MTC_EN, {0}, IN, EV(WAKE, IN, .cause = 1, .size = 1, .tsc = 840), {0},
     "tsc(840) tma(10,0) cbr(24)"},
    {"frequency_change_in_context_is_exstop_fup_time", UK | PWR_EVT_EN | TSC_EN, {0}, IN, EV(FREQ, IN, .value = 30, .tsc = 84), {0},
     "exstopip fup(401000) tsc(84) cbr(30)"},
    {"frequency_change_out_of_context_is_exstop_time", U | PWR_EVT_EN, IN_KERNEL, IN, EV(FREQ, IN, .value = 30), {0}, "exstop cbr(30)"},
    {"frequency_change_without_pwr_evt_en_is_cbr", UK, {0}, IN, EV(FREQ, IN, .value = 30), {0}, "cbr(30)"},
    {"ptwrite_is_ptw", UK | PTW_EN, {0}, IN, EV(PTWRITE, IN, .value = 0x12345678, .size = 4), {0}, "ptw4(12345678)"},
    {"ptwrite_of_8_bytes_with_fup", UK | PTW_EN | FUP_ON_PTW, {0}, IN, EV(PTWRITE, IN, .value = 0x123456789abcdef, .size = 8), {0},
     "ptw8ip(123456789abcdef) fup(401000)"},
    {"ptwrite_with_branch_en_0_is_ptw_fup", NOBR | PTW_EN | FUP_ON_PTW, {0}, IN, EV(PTWRITE, IN, .value = 1, .size = 4), {0},
     "ptw4ip(1) fup(401000)"},
    {"ptwrite_outside_the_filter_is_nothing", UK | PTW_EN | FILTER, {0}, OUT, EV(PTWRITE, OUT, .value = 1, .size = 4), {0}, ""},
    {"ptwrite_out_of_context_is_nothing", U | PTW_EN, IN_KERNEL, IN, EV(PTWRITE, IN, .value = 1, .size = 4), {0}, ""},
    {"ptwrite_without_ptw_en_is_nothing", UK, {0}, IN, EV(PTWRITE, IN, .value = 1, .size = 4), {0}, ""},

    /* [PTREF 6.7, 5.8] */
    {"event_trace_interrupt", UK | EVENT_EN, {0}, IN, INT(INTR, IN, KERNEL, .vector = 32), {CPL(0)},
     "cfe(1,20) fup(401000) tip(ffffffff81000000)"},
    {"event_trace_page_fault", UK | EVENT_EN, {0}, IN, INT(FAULT, IN, KERNEL, .vector = 14, .value = 0xbadf000), {CPL(0)},
     "evd(0,badf000) cfe(1,e) fup(401000) tip(ffffffff81000000)"},
    {"event_trace_int_n", UK | EVENT_EN, {0}, IN, FAR(INT, IN, KERNEL, .vector = 0x80), {CPL(0)},
     "cfe(e,80) fup(401000) tip(ffffffff81000000)"},
    {"event_trace_iret", UK | EVENT_EN, IN_KERNEL, KERNEL, FAR(IRET, KERNEL, IN), {CPL(3)}, "cfe(2,0) tip(401000)"},
    {"event_trace_iret_outside_the_filter_has_its_ip", UK | EVENT_EN | FILTER, {0}, OUT, FAR(IRET, OUT, OUT + 64), {0},
     "cfeip(2,0) fup(500000)"},
    {"event_trace_syscall", UK | EVENT_EN, {0}, IN, FAR(SYSCALL, IN, KERNEL), {CPL(0)}, "cfe(f,0) tip(ffffffff81000000)"},
    {"event_trace_smi", UK | EVENT_EN, {0}, IN, INT(SMI, IN, 0x8000), {CPL(0)}, "cfe(3,0) fup(401000) tip.pgd()"},
    {"event_trace_rsm_needs_trigger_en", 0, IN_KERNEL, 0x8000, FAR(RSM, 0x8000, IN), {0}, ""},
    {"event_trace_vm_exit", UK | EVENT_EN, {CPL(0), .vmx = 3}, IN, INT(VMEXIT, IN, KERNEL, .value = 0x77, .value2 = 0x30), {.vmx = 2},
     "evd(1,77) evd(2,30) cfe(8,0) fup(401000) pip(1000) tip(ffffffff81000000)"},
    {"event_trace_vm_exit_by_interrupt", UK | EVENT_EN, {CPL(0), .vmx = 3}, IN,
     INT(VMEXIT, IN, KERNEL, .vector = 32, .value2 = 1), {.vmx = 2},
     "evd(1,0) evd(2,1) cfe(9,20) fup(401000) pip(1000) tip(ffffffff81000000)"},
    {"event_trace_vm_entry", UK | EVENT_EN, {CPL(0), .vmx = 2}, IN, FAR(VMENTRY, IN, OUT), {.vmx = 3},
     "cfe(7,0) pip(1000,nr) tip(500000)"},
    {"event_trace_init", U | EVENT_EN, {0}, IN, INT(INIT_BSP, IN, 0xfffffff0), {0}, "cfe(6,0) fup(401000) tip.pgd()"},
    {"event_trace_sipi", K | EVENT_EN, {CPL(3)}, IN, INT(SIPI, IN, 0x9000, .vector = 9), {CPL(0), .mode = 17},
     "cfe(5,9) mode.exec(16) tip.pge(9000)"},
    {"event_trace_uiret", UK | EVENT_EN, {0}, IN, FAR(UIRET, IN, OUT), {0}, "cfe(d,0) tip(500000)"},
    {"event_trace_user_interrupt", UK | EVENT_EN, {0}, IN, INT(UINTR, IN, OUT, .vector = 5), {0}, "cfe(c,5) fup(401000) tip(500000)"},
    {"event_trace_shutdown", UK | EVENT_EN, {0}, IN, INT(SHUTDOWN, IN, 0), {0}, "cfe(a,0)"},
    {"event_trace_with_branch_en_0_has_its_own_fup", NOBR | EVENT_EN, {0}, IN, INT(INTR, IN, KERNEL, .vector = 32), {CPL(0)},
     "cfeip(1,20) fup(401000)"},
    {"event_trace_out_of_context_on_both_sides_is_nothing", U | EVENT_EN, IN_KERNEL, KERNEL, INT(INTR, KERNEL, KERNEL + 64), {0}, ""},
    {"event_trace_into_context_has_no_ip", U | EVENT_EN, IN_KERNEL, KERNEL, FAR(IRET, KERNEL, IN), {CPL(3)},
     "cfe(2,0) mode.exec(64) tip.pge(401000)"},
    {"sti_under_event_trace_is_mode_exec_fup_nlip", UK | EVENT_EN, IN_KERNEL, IN, EV(STATE, IN), {.iflag = 2},
     "mode.exec(64,if) fup(401002)"},
    {"cli_under_event_trace_is_mode_exec_fup_nlip", UK | EVENT_EN, {CPL(0), .iflag = 2}, IN, EV(STATE, IN), {.iflag = 1},
     "mode.exec(64) fup(401002)"},
    {"sti_without_event_trace_is_nothing", UK, IN_KERNEL, IN, EV(STATE, IN), {.iflag = 2}, ""},
    {"interrupt_that_clears_if_has_mode_exec_under_event_trace", UK | EVENT_EN, {.iflag = 2}, IN, INT(INTR, IN, KERNEL, .vector = 1),
     {CPL(0), .iflag = 1}, "cfe(1,1) fup(401000) mode.exec(64) tip(ffffffff81000000)"},

    /* [SDM Tracing And Smm Transfer Monitor (Stm); SDM VMCS Packet]: the VMCS packet is for transitions to SMM
     * and back only, and TraceEn stays */
    {"smm_vm_exit_to_an_stm_has_a_vmcs_packet", UK, {CPL(0), .vmx = 3, .cr3 = 0x3000}, IN, INT(VMEXIT, IN, KERNEL),
     {.vmx = 2, .cr3 = 0x1000, .smm = 2, .vmcs = 0x7000}, "fup(401000) pip(1000) vmcs(7000) tip(ffffffff81000000)"},
    {"smm_vm_exit_out_of_the_filter_has_a_vmcs_packet", UK | FILTER, {CPL(0), .vmx = 3}, IN, INT(VMEXIT, IN, KERNEL),
     {.vmx = 2, .smm = 2, .vmcs = 0x7000}, "fup(401000) pip(1000) vmcs(7000) tip.pgd(ffffffff81000000)"},
    {"smm_vm_exit_concealed_has_none", UK, {CPL(0), .vmx = 3, .cr3 = 0x3000, .conceal = COFI_CONCEAL_EXITS}, IN,
     INT(VMEXIT, IN, KERNEL), {.vmx = 2, .cr3 = 0x1000, .smm = 2, .vmcs = 0x7000}, "fup(401000) tip(ffffffff81000000)"},
    {"vm_entry_from_an_stm_has_a_vmcs_packet", UK, {CPL(0), .vmx = 2, .smm = 2, .vmcs = 0x7000}, IN, FAR(VMENTRY, IN, OUT),
     {.vmx = 3, .cr3 = 0x3000, .smm = 1, .vmcs = 0x8000}, "pip(3000,nr) vmcs(8000) tip(500000)"},
    {"vm_entry_from_an_stm_concealed_has_none", UK, {CPL(0), .vmx = 2, .smm = 2, .conceal = COFI_CONCEAL_ENTRIES}, IN,
     FAR(VMENTRY, IN, OUT), {.vmx = 3, .cr3 = 0x3000, .smm = 1, .vmcs = 0x8000}, "tip(500000)"},

    /* [SDM Failed VM Entry], late */
    {"vm_entry_that_fails_late_is_pip_guest_pip_host_tip", UK, {CPL(0), .vmx = 2}, IN,
     FAR(VMENTRY_LATE, IN, KERNEL, .value = 0x3000), {.cr3 = 0x1000}, "pip(3000,nr) pip(1000) tip(ffffffff81000000)"},
    {"vm_entry_that_fails_late_with_lists_is_time_and_tip", UK | TSC_EN, {CPL(0), .vmx = 2, .conceal = COFI_CONCEAL_EXITS}, IN,
     FAR(VMENTRY_LATE, IN, KERNEL, .value = 0x3000, .msr = MSR_CTL, .control = UK | TSC_EN), {.cr3 = 0x1000},
     "tsc(0) cbr(24) tip(ffffffff81000000)"},
    {"vm_entry_that_fails_late_untraced_is_nothing", 0, {CPL(0), .vmx = 2}, IN,
     FAR(VMENTRY_LATE, IN, KERNEL, .value = 0x3000), {.cr3 = 0x1000}, ""},

    /* [SDM VMX Abort] and 16.10 of the power table */
    {"vmx_abort_is_fup_pgd", UK, {CPL(0), .vmx = 3}, IN, INT(VMX_ABORT, IN, 0), {.vmx = 2}, "fup(401000) tip.pgd()"},
    {"vmx_abort_with_power_events_stops_the_clock", UK | PWR_EVT_EN, {CPL(0), .vmx = 3}, IN, INT(VMX_ABORT, IN, 0), {.vmx = 2},
     "fup(401000) tip.pgd() pwre(c1.0) exstopip fup(401000)"},
    {"vmx_abort_out_of_context_stops_the_clock_without_ip", U | PWR_EVT_EN, {CPL(0), .vmx = 3}, IN, INT(VMX_ABORT, IN, 0),
     {.vmx = 2}, "pwre(c1.0) exstop"},

    /* [SDM SENTER/ENTERACCS and ACM] */
    {"senter_is_silent", UK, {CPL(0)}, IN, FAR(SENTER, IN, KERNEL), {0}, ""},
    {"an_acm_is_told_by_the_time_only", UK | TSC_EN, {CPL(0)}, IN, FAR(ACM, IN, KERNEL), {0}, "tsc(0) cbr(24)"},
    {"an_acm_untraced_is_nothing", 0, {CPL(0)}, IN, FAR(ACM, IN, KERNEL), {0}, ""},

    /* [PTREF 5.10] */
    {"trigger_with_a_known_count", UK, {0}, IN, EV(TRIGGER, IN, .value = 1, .value2 = 3, .taken = true), {0}, "trig(1,3)"},
    {"trigger_without_a_count_has_its_fup", UK, {0}, IN, EV(TRIGGER, IN, .value = 0x40), {0}, "trigip(40,0) fup(401000)"},
    {"trigger_without_packets_has_no_location", NOBR, {0}, IN, EV(TRIGGER, IN, .value = 2, .size = 1), {0}, "trig(2,-0,mult)"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void apply(struct cofi_context *context, const struct change *change)
{
    context->cpl = change->cpl ? change->cpl - 1 : context->cpl;
    context->mode = change->mode ? change->mode & ~1 : context->mode;
    context->vmx = change->vmx ? change->vmx - 1 : context->vmx;
    context->enclave = change->enclave ? change->enclave - 1 : context->enclave;
    context->intx = change->intx ? change->intx - 1 : context->intx;
    context->iflag = change->iflag ? change->iflag - 1 : context->iflag;
    context->smm = change->smm ? change->smm - 1 : context->smm;
    context->cr3 = change->cr3 ? change->cr3 : context->cr3;
    context->vmcs = change->vmcs ? change->vmcs : context->vmcs;
    context->conceal = change->conceal ? change->conceal : context->conceal;
}

static bool changes(const struct change *change)
{
    static const struct change none;
    return memcmp(change, &none, sizeof none) != 0;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct pt_rig *rig = malloc(sizeof *rig);
    rig_open(rig, &(struct cofi_unit_config){.model = "all", .tsc_art_num = 84, .tsc_art_den = 1});
    rig->context.cpl = 3;
    apply(&rig->context, &row->before);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, IN), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, IN + 0xfff), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A + 2, STOPS), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B + 2, STOPS + 0xfff), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CR3_MATCH, 0x5000), 0);
    rig_start(rig, row->ctl, rig->context.cpl, row->ip);
    struct cofi_event event = row->event;
    event.after = rig->context;
    apply(&event.after, &row->after);
    event.context_set = changes(&row->after) || event.kind == COFI_EV_MOV_CR3 || event.kind == COFI_EV_VMPTRLD;
    assert_int_equal(rig_event(rig, &event), 0);
    assert_string_equal(rig_packets(rig), row->packets);
    rig_close(rig);
    free(rig);
}

int main(void)
{
    static struct CMUnitTest tests[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){.name = rows[i].name, .test_func = check_row, .initial_state = (void *)&rows[i]};
    return _cmocka_run_group_tests("packet generation, row by row", tests, ROWS, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 * Programs whose output and status must not change when they are recorded. */
#ifndef COFI_TEST_FAST_GUESTS_H
#define COFI_TEST_FAST_GUESTS_H

#define GUESTS(X)                                                                                \
    X(faults) X(edit) X(storm) X(overflow) X(masks) X(action_flags) X(restart) X(terminated) X(crash)            \
    X(trapped) X(threads) X(many_threads) X(fork_tree) X(pid_namespaces) X(fork_in_threads) X(spawn)               \
    X(exec_fails) X(vfork) X(vfork_deep) X(shared_memory) X(jit) X(straddle) X(jit_same_block) X(jit_thread) X(jit_dual) X(jit_strewn) X(jit_vast) X(jit_pages) X(jit_rights) X(jit_back) \
    X(jit_as_it_was) X(jit_threads) X(jit_busy) X(jit_once) X(jit_named) X(patched) \
    X(dlopen) X(vdso) X(gs) X(gs_operands) X(int80) X(shadow_stack) X(trap_flag) X(single_steps) X(alignment) X(pushed) X(registers) X(seccomp) X(close_all)           \
    X(redzone) X(deep) X(jumps) X(kernel_writes) X(kernel_reads) X(own_code) X(flags) X(proc_self) X(cpuid) X(unwind)     \
    X(barrier) X(vsyscall) X(vectors) X(fsgsbase) X(small_stacks) X(seccomp_strict_filter)       \
    X(seccomp_kills) X(seccomp_refused) X(seccomp_mode_1) X(seccomp_trap) X(seccomp_threads) X(seccomp_exec)        \
    X(seccomp_asks) X(exit_group) X(exec_in_thread) X(nested) X(waited) X(interrupted)           \
    X(storm_signals) X(storm_queue) X(storm_threads) X(storm_forks) X(storm_dlopen) \
    X(storm_jit) X(storm_mappings) X(storm_blocks) X(storm_returns) X(sections) X(sections_moved) X(sequences_known) X(sequences_long) X(sequences_fault) X(exec_fails_in_threads) X(results) X(killed_early) X(killed_first)         \
    X(alternate_overflow) X(io_waits) X(cleared) X(handed_over) X(high_numbers) X(killed_unborn) X(undecodable) X(tsc) X(dispatch) X(unheard) \
    X(limits) X(limited) X(resident) X(queued) X(frames) X(disarmed) X(state_in_frames) X(memory_file) X(nowhere) X(missed_page) X(far_arguments) X(pid_namespaces_gone) X(pid_namespaces_without_first) \
    X(advised) X(advised_beside_holes) X(sealed) X(shrunk) X(layout) X(broken_off) X(grown) X(huge_pages) X(jit_aligned) X(watchpoints) X(droppable) X(random) \
    X(sent_together) X(no_room) X(ignored_pending) X(waited_with_one_open) X(waited_while_ready) X(let_in_together) X(alternates) X(seccomp_nothing_done) X(seccomp_no_end) X(seccomp_answered) X(seccomp_kills_thread) X(sent_to_process) X(faults_shown) X(jit_attached) X(jit_beside_tids) \
    X(moved) X(rseq_beside) X(robust_beside) X(frames_beside) X(kernel_loses) X(kernel_waits) X(rights_in_threads) X(reused) X(keys) X(looked_at) X(mappings) X(rights_in_parts) X(moved_in_part) \
    X(at_new_code) X(halted_at_steps) X(halted_at_waits) X(in_order) X(none_pending) X(sent_at_steps) X(halted_at_breakpoints) X(arguments) X(arguments_passed) X(waited_behind_exec) X(waited_in_vain) X(sent_twice) X(alternate_edges) X(timed_for_process) X(stopped_at_wait) X(sent_to_suspended) X(ended_by_thread) X(unqueued) X(upper_halves) X(made_once) X(strict_threads) X(gs_ends) X(threads_beside) X(seccomp_bases) X(limits_far) X(tiles) \
    X(grown_by_writes) X(rights_downwards) X(sealed_in_part) X(pages_moved) X(across_mappings) X(across_cut) X(rights_implied) X(grown_by_none) X(mapped_in_vain) X(trap_beside_hole) X(traced_child) X(traced_space) X(traced_often) X(traced_confined) X(over_a_hole)

/* Without an end: to be killed. */
int guest_busy(void);
#define X(name) int guest_##name(void);
GUESTS(X)
#undef X

#endif

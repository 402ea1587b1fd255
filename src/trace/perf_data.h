/* SPDX-License-Identifier: MIT
 * Numbers of the perf.data format [PTREF 10], [perf_event_open], each in one place for both directions. */
#ifndef COFI_TRACE_PERF_DATA_H
#define COFI_TRACE_PERF_DATA_H

#include <stdint.h>

/* Header of a seekable file [PTREF 10.1]. */
enum { PERF_HEADER_BYTES = 104, PERF_PIPE_HEADER_BYTES = 16 };
#define PERF_MAGIC UINT64_C(0x32454c4946524550) /* "PERFILE2" */

/* Record header: u32 type, u16 misc, u16 size. */
enum { PERF_RECORD_HEADER_BYTES = 8, PERF_RECORD_MAX = 65528 };

enum perf_record {
    PERF_MMAP = 1,
    PERF_LOST = 2,
    PERF_COMM = 3,
    PERF_EXIT = 4,
    PERF_FORK = 7,
    PERF_SAMPLE = 9,
    PERF_MMAP2 = 10,
    PERF_AUX = 11,
    PERF_ITRACE_START = 12,
    PERF_LOST_SAMPLES = 13,
    PERF_SWITCH = 14,
    PERF_SWITCH_CPU_WIDE = 15,
    PERF_KSYMBOL = 17,
    PERF_TEXT_POKE = 20,
    PERF_AUX_OUTPUT_HW_ID = 21,
    PERF_USER = 64, /* from here on records of the tool, without a sample id */
    PERF_HEADER_ATTR = 64,
    PERF_HEADER_TRACING_DATA = 66,
    PERF_HEADER_BUILD_ID = 67,
    PERF_FINISHED_ROUND = 68,
    PERF_ID_INDEX = 69,
    PERF_AUXTRACE_INFO = 70,
    PERF_AUXTRACE = 71,
    PERF_AUXTRACE_ERROR = 72,
    PERF_TIME_CONV = 79,
    PERF_HEADER_FEATURE = 80,
    PERF_COMPRESSED = 81,
    PERF_COMPRESSED2 = 83
};

/* misc bits. */
enum {
    PERF_MISC_CPUMODE = 7,
    PERF_MISC_KERNEL = 1,
    PERF_MISC_USER = 2,
    PERF_MISC_GUEST_KERNEL = 4,
    PERF_MISC_GUEST_USER = 5,
    PERF_MISC_COMM_EXEC = 1 << 13,
    PERF_MISC_FORK_EXEC = 1 << 13,
    PERF_MISC_SWITCH_OUT = 1 << 13,
    PERF_MISC_SWITCH_PREEMPT = 1 << 14,
    PERF_MISC_MMAP_BUILD_ID = 1 << 14,
    PERF_MISC_LOST_BY_BPF = 1 << 15,
    PERF_MISC_BUILD_ID_SIZE = 1 << 15
};

/* perf_event_attr: offsets of the fields used, and bits of its flags word. */
enum {
    ATTR_TYPE = 0,
    ATTR_SIZE = 4,
    ATTR_CONFIG = 8,
    ATTR_SAMPLE_PERIOD = 16,
    ATTR_SAMPLE_TYPE = 24,
    ATTR_READ_FORMAT = 32,
    ATTR_FLAGS = 40,
    ATTR_BRANCH_SAMPLE_TYPE = 72,
    ATTR_SAMPLE_REGS_USER = 80,
    ATTR_SAMPLE_STACK_USER = 88,
    ATTR_CLOCKID = 92,
    ATTR_SAMPLE_REGS_INTR = 96,
    ATTR_BYTES_MIN = 64,
    ATTR_BYTES = 112 /* what is written: PERF_ATTR_SIZE_VER5 */
};
#define ATTR_DISABLED (UINT64_C(1) << 0)
#define ATTR_EXCLUDE_USER (UINT64_C(1) << 4)
#define ATTR_EXCLUDE_KERNEL (UINT64_C(1) << 5)
#define ATTR_EXCLUDE_HV (UINT64_C(1) << 6)
#define ATTR_MMAP (UINT64_C(1) << 8)
#define ATTR_COMM (UINT64_C(1) << 9)
#define ATTR_TASK (UINT64_C(1) << 13)
#define ATTR_SAMPLE_ID_ALL (UINT64_C(1) << 18)
#define ATTR_MMAP2 (UINT64_C(1) << 23)
#define ATTR_COMM_EXEC (UINT64_C(1) << 24)
#define ATTR_USE_CLOCKID (UINT64_C(1) << 25)
#define ATTR_CONTEXT_SWITCH (UINT64_C(1) << 26)

/* sample_type bits. */
#define SAMPLE_IP (UINT64_C(1) << 0)
#define SAMPLE_TID (UINT64_C(1) << 1)
#define SAMPLE_TIME (UINT64_C(1) << 2)
#define SAMPLE_ADDR (UINT64_C(1) << 3)
#define SAMPLE_READ (UINT64_C(1) << 4)
#define SAMPLE_CALLCHAIN (UINT64_C(1) << 5)
#define SAMPLE_ID (UINT64_C(1) << 6)
#define SAMPLE_CPU (UINT64_C(1) << 7)
#define SAMPLE_PERIOD (UINT64_C(1) << 8)
#define SAMPLE_STREAM_ID (UINT64_C(1) << 9)
#define SAMPLE_RAW (UINT64_C(1) << 10)
#define SAMPLE_BRANCH_STACK (UINT64_C(1) << 11)
#define SAMPLE_REGS_USER (UINT64_C(1) << 12)
#define SAMPLE_STACK_USER (UINT64_C(1) << 13)
#define SAMPLE_WEIGHT (UINT64_C(1) << 14)
#define SAMPLE_DATA_SRC (UINT64_C(1) << 15)
#define SAMPLE_IDENTIFIER (UINT64_C(1) << 16)
#define SAMPLE_TRANSACTION (UINT64_C(1) << 17)
#define SAMPLE_REGS_INTR (UINT64_C(1) << 18)
#define SAMPLE_PHYS_ADDR (UINT64_C(1) << 19)
#define SAMPLE_AUX (UINT64_C(1) << 20)
#define SAMPLE_CGROUP (UINT64_C(1) << 21)
#define SAMPLE_DATA_PAGE_SIZE (UINT64_C(1) << 22)
#define SAMPLE_CODE_PAGE_SIZE (UINT64_C(1) << 23)
#define SAMPLE_WEIGHT_STRUCT (UINT64_C(1) << 24)

/* read_format and branch_sample_type bits that change how long a sample is. */
#define READ_TIME_ENABLED (UINT64_C(1) << 0)
#define READ_TIME_RUNNING (UINT64_C(1) << 1)
#define READ_ID (UINT64_C(1) << 2)
#define READ_GROUP (UINT64_C(1) << 3)
#define READ_LOST (UINT64_C(1) << 4)
#define BRANCH_HW_INDEX (UINT64_C(1) << 17)
#define BRANCH_COUNTERS (UINT64_C(1) << 19)

enum { TYPE_SOFTWARE = 1, TYPE_TRACEPOINT = 2, SOFTWARE_DUMMY = 9 };

/* Feature sections, in bit order behind the data. */
enum perf_feature {
    FEATURE_TRACING_DATA = 1,
    FEATURE_BUILD_ID = 2,
    FEATURE_HOSTNAME = 3,
    FEATURE_OSRELEASE = 4,
    FEATURE_VERSION = 5,
    FEATURE_ARCH = 6,
    FEATURE_NRCPUS = 7,
    FEATURE_CPUDESC = 8,
    FEATURE_CPUID = 9,
    FEATURE_TOTAL_MEM = 10,
    FEATURE_CMDLINE = 11,
    FEATURE_EVENT_DESC = 12,
    FEATURE_PMU_MAPPINGS = 16,
    FEATURE_AUXTRACE = 18,
    FEATURE_SAMPLE_TIME = 21,
    FEATURE_BPF_PROG_INFO = 25,
    FEATURE_COMPRESSED = 27,
    FEATURES = 256
};

/* AUXTRACE_INFO: type, and the words of priv[] for intel_pt [PTREF 10.3]. */
enum { AUXTRACE_TYPE_INTEL_PT = 1, AUXTRACE_TYPE_RTIT = 0x54495452 /* "RTIT" */ };
enum {
    INFO_PMU_TYPE,
    INFO_TIME_SHIFT,
    INFO_TIME_MULT,
    INFO_TIME_ZERO,
    INFO_CAP_USER_TIME_ZERO,
    INFO_TSC_BIT,
    INFO_NORETCOMP_BIT,
    INFO_HAVE_SCHED_SWITCH,
    INFO_SNAPSHOT_MODE,
    INFO_PER_CPU_MMAPS,
    INFO_MTC_BIT,
    INFO_MTC_FREQ_BITS,
    INFO_TSC_CTC_N, /* CPUID.15H EBX */
    INFO_TSC_CTC_D, /* CPUID.15H EAX */
    INFO_CYC_BIT,
    INFO_MAX_NONTURBO_RATIO,
    INFO_FILTER_STR_LEN,
    INFO_WORDS
};
/* Behind the filter string and cap_event_trace, where perf does not look, cofi writes its own words. */
#define COFI_INFO_MAGIC UINT64_C(0x31304f4649464f43) /* "COFIFO01" */
enum {
    COFI_INFO_MAGIC_WORD,
    COFI_INFO_GEN,
    COFI_INFO_CONFIG, /* the control register as traced, all bits */
    COFI_INFO_FAMILY,
    COFI_INFO_MODEL,
    COFI_INFO_STEPPING,
    COFI_INFO_TIME,   /* mtc_freq | nominal_ratio << 8 | tsc << 16 | mtc << 17 | cyc << 18 | monotonic << 19 */
    COFI_INFO_EVENTS, /* RTIT_EVENTS | 1 << 32; 0: this word and those behind it are not there */
    COFI_INFO_CR3_MATCH,
    COFI_INFO_RANGES, /* base and limit of each: RTIT_LIP0, _LIP2, _LIP1, _LIP3; ADDR0_A, ADDR0_B, ... */
    COFI_INFO_LAST = COFI_INFO_RANGES + 7,
    COFI_INFO_WORDS
};

enum { AUX_TRUNCATED = 1, AUX_PARTIAL = 4 }; /* flags of an AUX record */

/* AUXTRACE: header, size, offset, reference u64; idx, tid, cpu, reserved u32; then the trace.
 * cofi stores in `reserved` how many of the last bytes are padding. */
enum { AUXTRACE_BYTES = 48 };

/* IA32_RTIT_CTL bits that perf's intel_pt format has under the same number [SDM IA32_RTIT_CTL]. */
#define PERF_PT_CONFIG_BITS UINT64_C(0x008000008f7bfe33)
enum { CTL_PT_OS = 1 << 2, CTL_PT_USER = 1 << 3, CTL_TSC_BIT = 0x400, CTL_NORETCOMP_BIT = 0x800,
       CTL_MTC_BIT = 0x200, CTL_MTC_FREQ_BITS = 0x3c000, CTL_CYC_BIT = 2, CTL_BRANCH_BIT = 0x2000 };

/* In ino_generation of an MMAP2: it only shows perf the bytes of the TEXT_POKE before it. */
#define COFI_CODE_GENERATION UINT64_C(0x45444f4349464f43) /* "COFICODE" */

/* ids of cofi's two events: the trace, and the sideband. */
enum { ID_TRACE = 1, ID_SIDEBAND = 2, PMU_TYPE = 8 };

#endif

/* SPDX-License-Identifier: MIT
 * The keys of an event's text form, one row each, for printing and parsing. */
#ifndef COFI_EVENT_TEXT_H
#define COFI_EVENT_TEXT_H

#include <stddef.h>

#include <cofi/event.h>

enum cofi__key_base { COFI__HEX, COFI__DEC };

/* key, member, base, largest value. Members of the event itself; 0 is not printed, but see vector. */
#define COFI_EVENT_KEYS(X)                              \
    X("ip", ip, COFI__HEX, UINT64_MAX)                  \
    X("next", next, COFI__HEX, UINT64_MAX)              \
    X("target", target, COFI__HEX, UINT64_MAX)          \
    X("msr", msr, COFI__HEX, UINT32_MAX)                \
    X("value", value, COFI__HEX, UINT64_MAX)            \
    X("value2", value2, COFI__HEX, UINT64_MAX)          \
    X("control", control, COFI__HEX, UINT64_MAX)        \
    X("size", size, COFI__DEC, UINT8_MAX)               \
    X("tsc", tsc, COFI__DEC, UINT64_MAX)                \
    X("cycles", cycles, COFI__DEC, UINT64_MAX)

/* Members of the context after the event; printed where they differ from the one before. */
#define COFI_CONTEXT_KEYS(X)                            \
    X("cpl", cpl, COFI__DEC, 3)                         \
    X("cr3", cr3, COFI__HEX, UINT64_MAX)                \
    X("mode", mode, COFI__DEC, 64)                      \
    X("if", iflag, COFI__DEC, 1)                        \
    X("pg", cr0_pg, COFI__DEC, 1)                       \
    X("pae", pae, COFI__DEC, 1)                         \
    X("smm", smm, COFI__DEC, 1)                         \
    X("vmx", vmx, COFI__DEC, 2)                         \
    X("vmcs", vmcs, COFI__HEX, UINT64_MAX)              \
    X("cs", cs_base, COFI__HEX, UINT64_MAX)             \
    X("sgx", enclave, COFI__DEC, 1)                     \
    X("tx", intx, COFI__DEC, 1)                         \
    X("conceal", conceal, COFI__DEC, 7)

/* The word list of a kind's cause; null where it has none. */
const char *const *cofi__event_causes(unsigned kind, size_t *n);
extern const char *const cofi__event_kinds[COFI_EVENT_KINDS];

#endif

/* SPDX-License-Identifier: MIT
 * All of cofi's public headers, and its version. For C11 and C++11; some structs
 * have a function's name, and are written with `struct` in C++, too.
 *
 * Functions need 64 KiB of stack; with source lines, which libdw reads, 256 KiB; and
 * 512 KiB to make names readable (demangle.h), for some were made to need it.
 *
 * The binary interface is that of libcofi.so.0 and symbol version COFI_0 until both
 * numbers are raised. Until then functions and enumerators are added, and members at
 * the end of structs that begin with their size (where they are 0 all is as before);
 * nothing else of what the headers declare changes. */
#ifndef COFI_COFI_H
#define COFI_COFI_H

#define COFI_VERSION "0.1.0"

#include <cofi/analyze.h>
#include <cofi/demangle.h>
#include <cofi/diff.h>
#include <cofi/error.h>
#include <cofi/event.h>
#include <cofi/fast.h>
#include <cofi/filter.h>
#include <cofi/flow.h>
#include <cofi/host.h>
#include <cofi/image.h>
#include <cofi/insn.h>
#include <cofi/output.h>
#include <cofi/packet.h>
#include <cofi/present.h>
#include <cofi/stream.h>
#include <cofi/time.h>
#include <cofi/trace.h>
#include <cofi/unit.h>

#endif

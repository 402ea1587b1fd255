/* SPDX-License-Identifier: MIT
 * The kernel's code beside a recording, where perf looks for it. */
#ifndef COFI_HOST_QEMU_KCORE_H
#define COFI_HOST_QEMU_KCORE_H

#include <cofi/error.h>

#include "host/qemu/pages.h"

/* Make kcore_dir in a folder, as `perf record --kcore` does: kcore, an ELF of the kernel's pages as they were
 * last; kallsyms, which says that the kernel begins at text; modules, of which nothing is known. 0,
 * COFI_ERR_NOMEM or COFI_ERR_IO, with a text. */
int cofi__kcore_write(const struct cofi__pages *pages, uint64_t text, const char *folder, struct cofi_error *error);

#endif

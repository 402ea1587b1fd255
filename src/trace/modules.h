/* SPDX-License-Identifier: MIT
 * The modules of a kernel that no kcore shows. */
#ifndef COFI_TRACE_MODULES_H
#define COFI_TRACE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cofi_recording;
struct cofi_sideband;
struct cofi__machine;
struct cofi__modules;

/* /lib/modules/…/snd-pcm.ko.xz and [snd_pcm] are snd_pcm. */
void cofi__module_name(const char *path, char *out, size_t n);

/* A module's mapping shows its file's code. False: there is no file that could be it, or no memory. */
bool cofi__map_module(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map);
/* Where the kernel's functions are: two files, and what KASLR moved the kernel by since each was made. Either may be
 * null; they are read when a module is first looked at. */
void cofi__modules_kernel(struct cofi__machine *machine, const char *kallsyms, uint64_t kallsyms_slide,
                          const char *vmlinux, uint64_t vmlinux_slide);
void cofi__modules_free(struct cofi__modules *modules);

#endif

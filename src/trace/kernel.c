/* SPDX-License-Identifier: MIT
 * The kernel's mappings and the vDSO -> where their bytes are. */
#include <gelf.h>
#include <elfutils/libdwelf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "image/image.h"
#include "trace/reader.h"

/* ~/.debug/.build-id/XX/YYYY…/name: where perf keeps copies of what it saw. */
static char *cached(const struct cofi_sideband *map, const char *name)
{
    char hex[41] = "", *path = NULL;
    const char *home = getenv("HOME");
    for (size_t i = 0; i < map->build_id_size && i < 20; i++)
        sprintf(hex + 2 * i, "%02x", map->build_id[i]);
    if (!home || strlen(hex) < 4)
        return NULL;
    if (asprintf(&path, "%s/.debug/.build-id/%.2s/%s/%s", home, hex, hex + 2, name) < 0)
        return NULL;
    if (!access(path, R_OK))
        return path;
    free(path);
    return NULL;
}

uint64_t cofi__vdso_bytes(const uint8_t *own)
{
    uint64_t bytes = 0;
    elf_version(EV_CURRENT);
    Elf *elf = own ? elf_memory((char *)own, 4096) : NULL;
    GElf_Ehdr ehdr;
    size_t n;
    if (elf && gelf_getehdr(elf, &ehdr) && ehdr.e_machine == EM_X86_64 && !elf_getphdrnum(elf, &n))
        for (size_t i = 0; i < n; i++) {
            GElf_Phdr phdr;
            if (gelf_getphdr(elf, (int)i, &phdr) && phdr.p_type == PT_LOAD)
                bytes = (phdr.p_offset + phdr.p_filesz + 4095) & ~UINT64_C(4095);
        }
    if (elf)
        elf_end(elf);
    return bytes;
}

static bool build_id_is(const uint8_t *elf_bytes, size_t n, const struct cofi_sideband *map)
{
    const void *id;
    bool same = false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_memory((char *)elf_bytes, n);
    if (elf && dwelf_elf_gnu_build_id(elf, &id) == map->build_id_size)
        same = !memcmp(id, map->build_id, map->build_id_size);
    if (elf)
        elf_end(elf);
    return same;
}

/* A recording of this very kernel has the vDSO that this process has. */
static bool same_kernel(const struct cofi_recording *recording)
{
    struct utsname name;
    return recording->osrelease && !uname(&name) && !strcmp(name.release, recording->osrelease);
}

bool cofi__is_vdso32(const struct cofi_sideband *map)
{
    return map->name && !strcmp(map->name, "[vdso]") && map->addr < UINT64_C(1) << 32;
}

int cofi__map_vdso(struct cofi_recording *recording, struct cofi_image *image, const struct cofi_sideband *map)
{
    char *path = cached(map, "vdso");
    const uint8_t *own = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
    uint64_t n = cofi__is_vdso32(map) ? 0 : cofi__vdso_bytes(own);
    const char *missing = cofi__is_vdso32(map) ? "[vdso]: a 32-bit program's, which is not in perf's cache" : "[vdso]";
    int status;
    if (n > map->len)
        n = map->len;
    if (path) {
        status = cofi_image_map_file(image, map->time_ns, map->addr, map->len, path, map->pgoff, map->build_id,
                                     map->build_id_size);
    } else if (n && (map->build_id_size ? build_id_is(own, (size_t)n, map) : same_kernel(recording))) {
        status = cofi_image_map_bytes(image, map->time_ns, map->addr, own, n, "[vdso]");
    } else {
        status = cofi_image_map_file(image, map->time_ns, map->addr, map->len, missing, 0, NULL, 0);
    }
    free(path);
    return status;
}

/* The piece that follows one that ends at an address; null: none does. Others' records may lie between. */
static const struct cofi_sideband *next_piece(const struct cofi_sideband *sideband, size_t n,
                                              const struct cofi_sideband *first, uint64_t end)
{
    enum { NEAR = 256, MOST = 1 << 16 };
    for (const struct cofi_sideband *sb = first + 1; sb < sideband + n && sb < first + NEAR; sb++)
        if (sb->kind == COFI_SB_CODE && sb->pid == first->pid && sb->machine == first->machine && sb->addr == end &&
            sb->len)
            return end - first->addr + sb->len <= MOST ? sb : NULL;
    return NULL;
}

/* All pieces from the first on, into `to` if it is not null. Returns how many bytes they have. */
static uint64_t join(const struct cofi_recording *recording, const struct cofi_sideband *first, uint8_t *to)
{
    uint64_t n = 0;
    for (const struct cofi_sideband *sb = first; sb;
         sb = next_piece(recording->sideband.items, recording->sideband.n, first, first->addr + n)) {
        if (to)
            memcpy(to + n, sb->bytes, sb->len);
        n += sb->len;
    }
    return n;
}

/* Whether what was joined last has these bytes at a distance from its start. */
static bool has_joined(const struct cofi_recording *recording, uint64_t at, const struct cofi_sideband *sb)
{
    return at <= recording->vdso.n && sb->len <= recording->vdso.n - at &&
           !memcmp(recording->vdso.bytes + at, sb->bytes, sb->len);
}

/* The vDSO is the same in all processes, most often. */
static bool join_anew(struct cofi_recording *recording, const struct cofi_sideband *first, uint64_t n)
{
    uint8_t *bytes = malloc(n);
    recording->nomem |= !bytes;
    if (bytes)
        join(recording, first, bytes);
    if (bytes && (n != recording->vdso.n || memcmp(bytes, recording->vdso.bytes, n))) {
        uint8_t *kept = cofi__keep_alloc(&recording->keep, n);
        recording->vdso.bytes = kept ? memcpy(kept, bytes, n) : NULL;
        recording->vdso.n = kept ? n : 0;
    }
    free(bytes);
    return bytes && recording->vdso.n;
}

bool cofi__join_vdso(struct cofi_recording *recording, size_t i, const uint8_t **bytes, uint64_t *n)
{
    const struct cofi_sideband *sb = (struct cofi_sideband *)recording->sideband.items + i;
    *bytes = sb->bytes;
    *n = sb->len;
    if (sb->pid == recording->vdso.pid && sb->addr > recording->vdso.addr &&
        has_joined(recording, sb->addr - recording->vdso.addr, sb))
        return false;
    if (sb->len < SELFMAG || memcmp(sb->bytes, ELFMAG, SELFMAG))
        return true;
    uint64_t all = join(recording, sb, NULL);
    if (all == sb->len || !join_anew(recording, sb, all))
        return true;
    recording->vdso.pid = sb->pid;
    recording->vdso.addr = sb->addr;
    *bytes = recording->vdso.bytes;
    *n = all;
    return true;
}

char *cofi__below_symfs(const struct cofi_recording *recording, const char *path)
{
    char *whole = NULL;
    if (!recording->symfs)
        return strdup(path);
    return asprintf(&whole, "%s%s", recording->symfs, path) < 0 ? NULL : whole;
}

const char *cofi__reference_symbol(const struct cofi_sideband *map)
{
    const char *end = strrchr(map->name, ']');
    return end && end[1] ? end + 1 : "_text";
}

/* The file at `format` of the kernel's release, if it is there. */
static char *of_release(const struct cofi_recording *recording, const char *format)
{
    char *path = NULL;
    if (!recording->osrelease || asprintf(&path, format, recording->osrelease) < 0)
        return NULL;
    char *below = cofi__below_symfs(recording, path);
    free(path);
    if (below && !access(below, R_OK))
        return below;
    free(below);
    return NULL;
}

/* Same, if it has the recorded build id. */
static char *proven(const struct cofi_recording *recording, const struct cofi_sideband *map, const char *format)
{
    struct cofi__source *source = NULL;
    char *below = map->build_id_size ? of_release(recording, format) : NULL;
    if (below)
        source = cofi__store_file(recording->store, below, NULL, map->build_id, map->build_id_size);
    if (source && cofi__source_open(source) == 0)
        return below;
    free(below);
    return NULL;
}

/* A vmlinux of the recorded build id, from the places where one is kept. */
static char *find_vmlinux(const struct cofi_recording *recording, const struct cofi__machine *machine,
                          const struct cofi_sideband *map)
{
    static const char *const places[] = {
        "/usr/lib/debug/boot/vmlinux-%s", "/usr/lib/debug/boot/vmlinux-%s.debug", "/boot/vmlinux-%s",
        "/usr/lib/debug/lib/modules/%s/vmlinux", "/lib/modules/%s/vmlinux", "/lib/modules/%s/build/vmlinux"};
    const char *told = machine->pid == HOST ? recording->options.vmlinux : NULL;
    char *path = told ? strdup(told) : cached(map, "elf");
    if (!path)
        path = cached(map, "vmlinux");
    for (size_t i = 0; !path && machine->pid == HOST && i < ARRAY_LEN(places); i++)
        path = proven(recording, map, places[i]);
    return path;
}

/* Where the reference symbol was, so what KASLR moved the kernel by, is in the mapping. */
static uint64_t slide(const struct cofi_sideband *map, uint64_t there) { return map->pgoff ? map->pgoff - there : 0; }

/* Modules call the kernel's functions, and people know them by names: perf keeps the recorded machine's kallsyms, which
 * has modules' functions, too. */
static void tell_names(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map,
                       const char *vmlinux, uint64_t there)
{
    const char *told = machine->pid == HOST ? recording->options.kallsyms : NULL;
    char *kallsyms = told ? strdup(told) : cached(map, "kallsyms");
    uint64_t kallsyms_there = kallsyms ? cofi__kallsyms_address(kallsyms, cofi__reference_symbol(map)) : 0;
    if (told && !kallsyms_there) /* a stand-in, as Debian's /boot/System.map, or /proc/kallsyms as users
                                  * without privilege see it */
        cofi__warn(
            recording,
            "%s: no address of %s in it: the kernel's functions have no names; take the recorded machine's /proc/kallsyms, as root",
            told, cofi__reference_symbol(map));
    cofi__modules_kernel(machine, kallsyms_there ? kallsyms : NULL, slide(map, kallsyms_there), vmlinux,
                         slide(map, there));
    if (kallsyms_there && (told || (!vmlinux && kallsyms_there == map->pgoff)))
        cofi__name_kernel(recording, machine, kallsyms, slide(map, kallsyms_there));
    free(kallsyms);
}

/* What the machine boots: the same code without symbols, which is everywhere. */
static bool map_vmlinuz(struct cofi_recording *recording, struct cofi__machine *machine,
                        const struct cofi_sideband *map)
{
    static const char *const places[] = {"/boot/vmlinuz-%s", "/lib/modules/%s/vmlinuz"};
    bool mapped = false;
    if (machine->pid != HOST || !map->build_id_size || !map->pgoff || strcmp(cofi__reference_symbol(map), "_text") != 0)
        return false;
    for (size_t i = 0; !mapped && i < ARRAY_LEN(places); i++) {
        char *path = of_release(recording, places[i]);
        mapped = path && cofi__image_map_vmlinuz(machine->kernel, map->time_ns, path, map->build_id, map->build_id_size,
                                                 map->pgoff) == 0;
        free(path);
    }
    return mapped;
}

static bool map_vmlinux(struct cofi_recording *recording, struct cofi__machine *machine,
                        const struct cofi_sideband *map)
{
    char *path = find_vmlinux(recording, machine, map);
    uint64_t there = path ? cofi__elf_symbol_address(path, cofi__reference_symbol(map)) : 0;
    bool mapped = there && cofi_image_map_elf(machine->kernel, map->time_ns, path, slide(map, there), NULL) == 0;
    tell_names(recording, machine, map, mapped ? path : NULL, there);
    free(path);
    return mapped;
}

static void say_why(struct cofi__machine *machine, const struct cofi_sideband *map, const char *why)
{
    cofi_image_map_file(machine->kernel, map->time_ns, map->addr, map->len, why, 0, NULL, 0);
}

static bool is_kernel(const char *name)
{
    return !strncmp(name, "[kernel", 7) || !strncmp(name, "[guest.kernel", 13);
}

/* Kernels 4.15 to 4.19 with isolated page tables are entered by a page for each processor that shows a
 * page of their text; perf names it, and its place there [linux: cpu_entry_area, _entry_trampoline]. */
static void map_entry_page(struct cofi__machine *machine, const struct cofi_sideband *map)
{
    enum { PAGE = 4096 };
    uint8_t page[PAGE];
    struct cofi_view *view;
    struct cofi_code code;
    uint64_t n = 0;
    if (cofi_view_open(&view, machine->kernel) < 0)
        return;
    if (cofi_view_advance(view, map->time_ns, NULL, NULL) >= 0 && cofi_view_find(view, map->pgoff, &code) >= 0) {
        n = code.end - map->pgoff < map->len ? code.end - map->pgoff : map->len;
        n = n < PAGE ? n : PAGE;
        memcpy(page, code.bytes + (map->pgoff - code.start), n);
    }
    cofi_view_close(view);
    if (n)
        cofi_image_map_bytes(machine->kernel, map->time_ns, map->addr, page, n, "[kernel entry]");
}

void cofi__map_kernel(struct cofi_recording *recording, struct cofi__machine *machine, const struct cofi_sideband *map)
{
    bool kernel = is_kernel(map->name);
    if (!strcmp(map->name, "__entry_SYSCALL_64_trampoline")) {
        map_entry_page(machine, map);
        return;
    }
    if (!machine->kcore_tried) {
        machine->kcore = cofi__map_kcore(recording, machine, map);
        machine->kcore_tried = kernel || machine->kcore;
    }
    if (kernel && !machine->kcore && !map_vmlinux(recording, machine, map) && !map_vmlinuz(recording, machine, map))
        say_why(machine, map, machine->pid == HOST ?
                "[kernel]: no kcore, vmlinux or vmlinuz of its build id found (perf record --kcore keeps one)" :
                "[guest kernel]: no kcore or vmlinux of its build id found (--guestmount tells where its /proc is)");
    if (kernel || (map->name[0] != '/' && map->name[0] != '['))
        return;
    if ((!machine->kcore || !cofi__kcore_has_module(machine, map)) && !cofi__map_module(recording, machine, map))
        say_why(machine, map,
                "[module]: no kcore that has it, and no file of its build id (perf record --kcore keeps the first)");
}

/* SPDX-License-Identifier: MIT
 * A plugin of QEMU's TCG: what a whole machine executes -> a recording.
 *     qemu-system-x86_64 -plugin build/cofi-qemu.so,out=cofi.data[,NAME=VALUE…] …
 * QEMU calls back where a translation block begins; how far each got, its code notes in a scoreboard. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cofi/unit.h>

#include "host/feed.h"
#include "host/qemu/api.h"
#include "host/qemu/kcore.h"
#include "host/qemu/vm.h"

#define EXPORT __attribute__((visibility("default")))

enum { CPUS_MAX = 256, RUN_INSNS_MAX = 512, INSN_BYTES_MAX = 15 };

/* A processor's registers, and room for what they are read into. */
struct vcpu {
    struct qemu_plugin_register *regs[VM_REGS];
    struct gbytes *value;
};

static struct {
    atomic_bool over;     /* nothing is recorded any more */
    pthread_mutex_t lock; /* all below */
    struct cofi__vm vm;
    struct cofi_recorder *recorder;
    struct cofi_truth *truth;
    struct vcpu vcpus[CPUS_MAX];
    struct cofi__run *runs;
    qemu_plugin_u64 started; /* of each processor's run: how many of its instructions have begun */
    const char *out, *truth_path;
    char folder[2048], in_folder[2048 + 8]; /* out=FOLDER/: the recording is a directory, and its file */
    char fields[1024];       /* of all config= */
    enum cofi_gen gen;
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER, .out = "cofi.data", .gen = COFI_PT};

/* ---- the processor ---- */

static uint64_t read_reg(void *opaque, enum cofi__vm_reg reg)
{
    struct vcpu *vcpu = opaque;
    uint64_t value = 0;
    g_byte_array_set_size(vcpu->value, 0);
    int n = vcpu->regs[reg] ? qemu_plugin_read_register(vcpu->regs[reg], vcpu->value) : 0;
    if (n > 0)
        memcpy(&value, vcpu->value->data, n < 8 ? (size_t)n : 8);
    return value;
}

static bool read_memory(void *opaque, uint64_t address, void *bytes, size_t n)
{
    struct vcpu *vcpu = opaque;
    g_byte_array_set_size(vcpu->value, 0);
    if (!qemu_plugin_read_memory_vaddr(address, vcpu->value, n) || vcpu->value->len < n)
        return false;
    memcpy(bytes, vcpu->value->data, n);
    return true;
}

static void find_registers(qemu_plugin_id_t id, unsigned index)
{
    static const char *const names[VM_REGS] = {
        [VM_RIP] = "rip", [VM_RSP] = "rsp", [VM_EFLAGS] = "eflags", [VM_CS] = "cs", [VM_CR3] = "cr3"};
    (void)id;
    if (index >= CPUS_MAX)
        return;
    struct vcpu *vcpu = &plugin.vcpus[index];
    struct garray *list = qemu_plugin_get_registers();
    const struct qemu_plugin_reg_descriptor *rows = (const void *)list->data;
    for (unsigned i = 0; i < list->len; i++)
        for (unsigned r = 0; r < VM_REGS; r++)
            if (!strcmp(rows[i].name, names[r]) && !vcpu->regs[r])
                vcpu->regs[r] = rows[i].handle;
    g_array_free(list, 1);
    vcpu->value = g_byte_array_new();
    for (unsigned r = 0; r < VM_REGS; r++)
        if (!vcpu->regs[r])
            fprintf(stderr, "cofi-qemu: this QEMU does not show register %s\n", names[r]);
}

/* ---- what QEMU calls ---- */

static void close_all(void)
{
    struct cofi_recorder_stats stats = {0};
    struct cofi_error error = {0};
    if (!plugin.recorder)
        return;
    plugin.over = true;
    cofi__vm_end(&plugin.vm);
    int status = cofi_recorder_close(plugin.recorder, &stats, &error);
    if (status >= 0)
        status = plugin.vm.status;
    if (status >= 0 && *plugin.folder)
        status = cofi__kcore_write(&plugin.vm.pages, cofi__vm_kernel(&plugin.vm), plugin.folder, &error);
    plugin.recorder = NULL;
    if (plugin.truth && cofi_truth_close(plugin.truth, &error) < 0)
        status = COFI_ERR_IO;
    if (status < 0)
        fprintf(stderr, "cofi-qemu: %s\n", error.text[0] ? error.text : cofi_error_text(status));
    fprintf(stderr, "cofi-qemu: %" PRIu64 " instructions of %u processor%s, %" PRIu64 " bytes of trace in %s\n",
            plugin.vm.retired, stats.streams, stats.streams == 1 ? "" : "s", stats.bytes, plugin.out);
    if (plugin.vm.unexplained)
        fprintf(stderr,
                "cofi-qemu: %" PRIu64 " transfers of control that nothing accounts for; the trace may be wrong there\n",
                plugin.vm.unexplained);
}

static void run_begins(unsigned index, void *run)
{
    if (index >= CPUS_MAX || plugin.over)
        return;
    struct cofi__vm_door door = {&plugin.vcpus[index], read_reg, read_memory};
    pthread_mutex_lock(&plugin.lock);
    cofi__vm_run(&plugin.vm, index, run, (unsigned)qemu_plugin_u64_get(plugin.started, index), &door);
    qemu_plugin_u64_set(plugin.started, index, 0);
    if (plugin.vm.ended)
        close_all();
    pthread_mutex_unlock(&plugin.lock);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint8_t lengths[RUN_INSNS_MAX], bytes[RUN_INSNS_MAX * INSN_BYTES_MAX];
    size_t n = qemu_plugin_tb_n_insns(tb), total = 0;
    (void)id;
    if (plugin.over || n > RUN_INSNS_MAX)
        return;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        lengths[i] = (uint8_t)qemu_plugin_insn_data(insn, bytes + total, INSN_BYTES_MAX);
        total += lengths[i];
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_STORE_U64, plugin.started, i + 1);
    }
    struct cofi__run *run = cofi__run_new(lengths, n, bytes, total);
    pthread_mutex_lock(&plugin.lock);
    if (run) {
        run->next = plugin.runs;
        plugin.runs = run;
    } else {
        plugin.vm.status = COFI_ERR_NOMEM;
    }
    pthread_mutex_unlock(&plugin.lock);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, run_begins, QEMU_PLUGIN_CB_R_REGS, run);
}

/* QEMU throws all blocks away. */
static void flushed(qemu_plugin_id_t id)
{
    (void)id;
    pthread_mutex_lock(&plugin.lock);
    for (unsigned i = 0; i < plugin.vm.cpus_n; i++)
        cofi__vm_settle(&plugin.vm, i, (unsigned)qemu_plugin_u64_get(plugin.started, i));
    while (plugin.runs) {
        struct cofi__run *next = plugin.runs->next;
        free(plugin.runs);
        plugin.runs = next;
    }
    pthread_mutex_unlock(&plugin.lock);
}

static void ends(qemu_plugin_id_t id, void *opaque)
{
    (void)id;
    (void)opaque;
    pthread_mutex_lock(&plugin.lock);
    for (unsigned i = 0; i < plugin.vm.cpus_n; i++)
        cofi__vm_settle(&plugin.vm, i, (unsigned)qemu_plugin_u64_get(plugin.started, i));
    close_all();
    pthread_mutex_unlock(&plugin.lock);
}

/* ---- arguments ---- */

static int refuse(const char *what, const char *argument)
{
    fprintf(stderr, "cofi-qemu: %s%s%s\n", argument ? argument : "", argument ? ": " : "", what);
    return -1;
}

static int take_number(const char *argument, const char *text, uint64_t *number)
{
    char *end;
    *number = strtoull(text, &end, 0);
    return end == text || *end ? refuse("not a number", argument) : 0;
}

static int take_unit(const char *argument, const char *value)
{
    plugin.gen = !strcmp(value, "rtit") ? COFI_RTIT : COFI_PT;
    return plugin.gen == COFI_PT && strcmp(value, "pt") != 0 ? refuse("the units are pt and rtit", argument) : 0;
}

/* A comma ends an argument of QEMU's, so there is one for each field. */
static int add_field(const char *argument, const char *value)
{
    size_t n = strlen(plugin.fields);
    if ((size_t)snprintf(plugin.fields + n, sizeof plugin.fields - n, "%s%s", n ? "," : "", value) >=
        sizeof plugin.fields - n)
        return refuse("too many fields", argument);
    return 0;
}

/* FOLDER/: a directory as `perf record --kcore` makes it. */
static int take_folder(const char *argument, const char *value)
{
    if ((size_t)snprintf(plugin.folder, sizeof plugin.folder, "%s", value) >= sizeof plugin.folder)
        return refuse("the name is too long", argument);
    if (mkdir(plugin.folder, 0777) && errno != EEXIST)
        return refuse(strerror(errno), argument);
    snprintf(plugin.in_folder, sizeof plugin.in_folder, "%sdata", plugin.folder);
    plugin.out = plugin.in_folder;
    return 0;
}

static int take_out(const char *argument, const char *value)
{
    size_t n = strlen(value);
    if (n && value[n - 1] == '/')
        return take_folder(argument, value);
    plugin.out = value;
    return n ? 0 : refuse("no file", argument);
}

static int take_truth(const char *argument, const char *value)
{
    plugin.truth_path = value;
    return *value ? 0 : refuse("no file", argument);
}

static int take_skip(const char *argument, const char *value) { return take_number(argument, value, &plugin.vm.skip); }
static int take_limit(const char *argument, const char *value)
{
    return take_number(argument, value, &plugin.vm.limit);
}

static int take_argument(const char *argument)
{
    static const struct { const char *name; int (*take)(const char *argument, const char *value);
    } rows[] = {{"out", take_out},     {"truth", take_truth}, {"unit", take_unit},
                {"config", add_field}, {"skip", take_skip},   {"limit", take_limit}};
    size_t n = strcspn(argument, "=");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, argument, n))
            return rows[i].take(argument, argument[n] ? argument + n + 1 : "");
    return refuse("no such argument; there are out, truth, unit, config, skip, limit", argument);
}

static int open_all(void)
{
    struct cofi_error error = {0};
    struct cofi_recorder_options options = {.size = sizeof options,
                                            .gen = plugin.gen,
                                            .path = plugin.out,
                                            .fields = plugin.fields,
                                            .machine = true};
    cofi__feed_time_info(false, &options.time);
    if (cofi_recorder_open(&plugin.recorder, &options, &error) < 0)
        return refuse(error.text, NULL);
    plugin.vm.observers[plugin.vm.observers_n++] = cofi_recorder_observer(plugin.recorder);
    plugin.vm.every = cofi_recorder_wants(plugin.recorder) & COFI_WANTS_INSN;
    if (plugin.truth_path) {
        if (cofi_truth_open(&plugin.truth, plugin.truth_path, &error) < 0)
            return refuse(error.text, NULL);
        plugin.vm.observers[plugin.vm.observers_n++] = cofi_truth_observer(plugin.truth);
    }
    return 0;
}

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_plugin_info *info, int argc, char **argv);
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_plugin_info *info, int argc, char **argv)
{
    if (strcmp(info->target_name, "x86_64") != 0 || !info->system_emulation)
        return refuse("this is for qemu-system-x86_64; programs are recorded by 'cofi record'", NULL);
    if (info->version.cur < QEMU_PLUGIN_VERSION)
        return refuse("this QEMU is too old: 9.2 is the first that shows plugins registers and memory", NULL);
    for (int i = 0; i < argc; i++)
        if (take_argument(argv[i]) < 0)
            return -1;
    if (open_all() < 0)
        return -1;
    plugin.started = (qemu_plugin_u64){qemu_plugin_scoreboard_new(sizeof(uint64_t)), 0};
    qemu_plugin_register_vcpu_init_cb(id, find_registers);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_flush_cb(id, flushed);
    qemu_plugin_register_atexit_cb(id, ends, NULL);
    return 0;
}

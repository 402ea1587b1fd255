/* SPDX-License-Identifier: MIT
 * A trace that LLDB saved: its description -> what it says. */
#include "bundle.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "beforehand.h"
#include "cli.h"
#include "file.h"

/* Texts that live as long as the bundle: paths, all of them. */
struct bundle_text {
    struct bundle_text *next;
    char text[];
};

struct reader {
    struct bundle *bundle;
    const char *command, *path;
    int folder;      /* bytes of the path that are its folder, with the slash */
    char where[160]; /* the object that is read */
    int status;      /* EXIT_DONE until something is wrong, which is said then */
};

static void __attribute__((format(printf, 2, 3))) refuse(struct reader *reader, const char *format, ...)
{
    char text[256];
    va_list args;
    if (reader->status != EXIT_DONE)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    complain("%s: %s: %s%s%s", reader->command, reader->path, reader->where, *reader->where ? ": " : "", text);
    reader->status = EXIT_DATA;
}

static void *keep(struct reader *reader, size_t n, size_t size)
{
    void *array = calloc(n ? n : 1, size);
    if (!array) {
        refuse(reader, "%s", strerror(ENOMEM));
        reader->status = EXIT_ENVIRONMENT;
    }
    return array;
}

static const char *keep_text(struct reader *reader, const char *before, int before_n, const char *text)
{
    size_t n = strlen(text);
    struct bundle_text *kept = keep(reader, 1, sizeof *kept + (size_t)before_n + n + 1);
    if (!kept)
        return "";
    memcpy(kept->text, before, (size_t)before_n);
    memcpy(kept->text + before_n, text, n);
    kept->next = reader->bundle->texts;
    reader->bundle->texts = kept;
    return kept->text;
}

/* ---- members of objects ---- */

/* The first of a member's names that an object has; names: of LLDB's versions, the newest first, each
 * ended by 0, all by two. Null: it has none, or JSON's null. */
static struct json_object *member(struct json_object *object, const char *names)
{
    if (!json_object_is_type(object, json_type_object))
        return NULL;
    for (const char *name = names; *name; name += strlen(name) + 1) {
        struct json_object *value = json_object_object_get(object, name);
        if (value)
            return value;
    }
    return NULL;
}

static const char *text_of(struct reader *reader, struct json_object *object, const char *names)
{
    struct json_object *value = member(object, names);
    if (value && !json_object_is_type(value, json_type_string))
        refuse(reader, "%s: not a text", names);
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

/* A path as it is, or below the bundle's folder; null if there is none. */
static const char *path_of(struct reader *reader, struct json_object *object, const char *names)
{
    const char *text = text_of(reader, object, names);
    return text ? keep_text(reader, reader->path, *text == '/' ? 0 : reader->folder, text) : NULL;
}

/* A number, or its text, as LLDB writes addresses for readers whose numbers may not hold them. */
static uint64_t number_of(struct reader *reader, struct json_object *object, const char *names, uint64_t most)
{
    struct json_object *value = member(object, names);
    bool is_text = json_object_is_type(value, json_type_string), is_number = json_object_is_type(value, json_type_int);
    uint64_t number = is_number ? json_object_get_uint64(value) : 0;
    if (!value)
        refuse(reader, "%s: it is not there", names);
    else if (is_text ? !parse_number(json_object_get_string(value), most, &number)
                     : !is_number || json_object_get_int64(value) < 0 || number > most)
        refuse(reader, "%s: no such number", names);
    return number;
}

static struct json_object *array_of(struct reader *reader, struct json_object *object, const char *names)
{
    struct json_object *value = member(object, names);
    if (value && !json_object_is_type(value, json_type_array))
        refuse(reader, "%s: not a list", names);
    return json_object_is_type(value, json_type_array) ? value : NULL;
}

static size_t length_of(struct json_object *array) { return array ? json_object_array_length(array) : 0; }

/* ---- what the description has ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Groups of hexadecimal digits. What is no build ID (of 20 bytes; LLDB makes others up from checksums) is none. */
static void read_uuid(struct bundle_module *module, const char *uuid)
{
    size_t n = 0;
    uint8_t id[20] = {0};
    for (; *uuid; uuid++) {
        int value = digit(*uuid);
        if (*uuid == '-')
            continue;
        if (value < 0 || n == 2 * sizeof id)
            return;
        id[n / 2] = (uint8_t)(id[n / 2] << 4 | value);
        n++;
    }
    if (n < 2 * sizeof id)
        return;
    memcpy(module->build_id, id, sizeof id);
    module->build_id_size = sizeof id;
}

static void read_module(struct reader *reader, struct json_object *object, struct bundle_module *module)
{
    module->path = path_of(reader, object, "file\0systemPath\0");
    module->address = number_of(reader, object, "loadAddress\0", UINT64_MAX);
    const char *uuid = text_of(reader, object, "uuid\0");
    if (uuid)
        read_uuid(module, uuid);
    if (!module->path)
        refuse(reader, "neither file nor systemPath");
}

static void read_thread(struct reader *reader, struct json_object *object, struct bundle_thread *thread)
{
    thread->tid = (int32_t)number_of(reader, object, "tid\0", INT32_MAX);
    thread->trace = path_of(reader, object, "iptTrace\0traceBuffer\0traceFile\0");
}

static void read_process(struct reader *reader, struct json_object *object, struct bundle_process *process)
{
    size_t inside = strlen(reader->where);
    struct json_object *threads = array_of(reader, object, "threads\0"),
                       *modules = array_of(reader, object, "modules\0");
    process->pid = (int32_t)number_of(reader, object, "pid\0", INT32_MAX);
    process->threads = keep(reader, length_of(threads), sizeof *process->threads);
    process->modules = keep(reader, length_of(modules), sizeof *process->modules);
    for (size_t i = 0; reader->status == EXIT_DONE && i < length_of(threads); i++) {
        snprintf(reader->where + inside, sizeof reader->where - inside, ".threads[%zu]", i);
        read_thread(reader, json_object_array_get_idx(threads, i), &process->threads[process->threads_n++]);
    }
    for (size_t i = 0; reader->status == EXIT_DONE && i < length_of(modules); i++) {
        snprintf(reader->where + inside, sizeof reader->where - inside, ".modules[%zu]", i);
        read_module(reader, json_object_array_get_idx(modules, i), &process->modules[process->modules_n++]);
    }
}

static void read_processes(struct reader *reader, struct json_object *processes)
{
    struct bundle *bundle = reader->bundle;
    bundle->processes = keep(reader, length_of(processes), sizeof *bundle->processes);
    for (size_t i = 0; reader->status == EXIT_DONE && i < length_of(processes); i++) {
        snprintf(reader->where, sizeof reader->where, "processes[%zu]", i);
        read_process(reader, json_object_array_get_idx(processes, i), &bundle->processes[bundle->processes_n++]);
    }
    reader->where[0] = 0;
}

static void read_cpu(struct reader *reader, struct json_object *object, struct bundle_cpu *cpu)
{
    cpu->id = (uint32_t)number_of(reader, object, "id\0coreId\0", INT32_MAX);
    cpu->trace = path_of(reader, object, "iptTrace\0traceBuffer\0");
    cpu->switches = path_of(reader, object, "contextSwitchTrace\0");
    if (!cpu->trace)
        refuse(reader, "iptTrace: it is not there");
}

static void read_cpus(struct reader *reader, struct json_object *cpus)
{
    struct bundle *bundle = reader->bundle;
    bundle->cpus = keep(reader, length_of(cpus), sizeof *bundle->cpus);
    for (size_t i = 0; reader->status == EXIT_DONE && i < length_of(cpus); i++) {
        snprintf(reader->where, sizeof reader->where, "cpus[%zu]", i);
        read_cpu(reader, json_object_array_get_idx(cpus, i), &bundle->cpus[bundle->cpus_n++]);
    }
    reader->where[0] = 0;
}

static void read_processor(struct reader *reader, struct json_object *root)
{
    struct bundle *bundle = reader->bundle;
    struct json_object *cpu = member(root, "cpuInfo\0");
    snprintf(reader->where, sizeof reader->where, "cpuInfo");
    if (!cpu)
        return;
    const char *vendor = text_of(reader, cpu, "vendor\0");
    if (vendor && (!strcmp(vendor, "GenuineIntel") || !strcmp(vendor, "intel")))
        bundle->vendor = "GenuineIntel";
    bundle->family = (uint32_t)number_of(reader, cpu, "family\0", UINT16_MAX);
    bundle->model = (uint32_t)number_of(reader, cpu, "model\0", UINT8_MAX);
    bundle->stepping = (uint32_t)number_of(reader, cpu, "stepping\0", UINT8_MAX);
}

static void read_time(struct reader *reader, struct json_object *conversion)
{
    struct cofi_time_conv *conv = &reader->bundle->conv;
    snprintf(reader->where, sizeof reader->where, "tscPerfZeroConversion");
    if (!conversion)
        return;
    conv->mult = (uint32_t)number_of(reader, conversion, "timeMult\0", UINT32_MAX);
    conv->shift = (uint16_t)number_of(reader, conversion, "timeShift\0", 63);
    conv->zero = number_of(reader, conversion, "timeZero\0", UINT64_MAX);
}

static const uint64_t kernel_text = UINT64_C(0xffffffff81000000); /* where Linux lies without KASLR, LLDB's default */

static void read_kernel(struct reader *reader, struct json_object *kernel)
{
    snprintf(reader->where, sizeof reader->where, "kernel");
    if (!kernel)
        return;
    reader->bundle->kernel = path_of(reader, kernel, "file\0");
    reader->bundle->kernel_address = kernel_text;
    if (member(kernel, "loadAddress\0"))
        reader->bundle->kernel_address = number_of(reader, kernel, "loadAddress\0", UINT64_MAX);
}

static bool threads_have_traces(const struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->processes_n; i++)
        for (size_t k = 0; k < bundle->processes[i].threads_n; k++)
            if (bundle->processes[i].threads[k].trace)
                return true;
    return false;
}

/* Until LLDB 13 the processor stood in an object of its own. */
static void read_root(struct reader *reader, struct json_object *root)
{
    struct json_object *trace = member(root, "trace\0") ? member(root, "trace\0") : root;
    const char *type = text_of(reader, trace, "type\0");
    if (!type || strcmp(type, "intel-pt")) {
        refuse(reader, "no trace that LLDB saved: its type is not intel-pt");
        return;
    }
    struct json_object *processes = array_of(reader, root, "processes\0"),
                       *cpus = array_of(reader, root, "cpus\0cores\0");
    read_processor(reader, trace);
    read_time(reader, member(root, "tscPerfZeroConversion\0"));
    read_kernel(reader, member(root, "kernel\0"));
    read_processes(reader, processes);
    read_cpus(reader, cpus);
    if (reader->bundle->cpus_n && threads_have_traces(reader->bundle))
        refuse(reader, "traces of threads and of processors: which of them?");
    if (reader->bundle->cpus_n && !reader->bundle->conv.mult)
        refuse(reader, "tscPerfZeroConversion: it is not there, and without it processors' traces do not tell who ran");
}

/* Null: it is said why, or it is JSON's null. */
static struct json_object *parse(struct reader *reader, const struct file *file)
{
    struct json_tokener *tokener = json_tokener_new();
    if (!tokener || file->n > INT32_MAX) {
        refuse(reader, "%s", strerror(tokener ? EFBIG : ENOMEM));
        if (tokener)
            json_tokener_free(tokener);
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    struct json_object *root = json_tokener_parse_ex(tokener, (const char *)file->bytes, (int)file->n);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    if (error == json_tokener_continue)
        refuse(reader, "the file ends inside of its JSON");
    else if (error != json_tokener_success)
        refuse(reader, "byte %zu: %s", json_tokener_get_parse_end(tokener), json_tokener_error_desc(error));
    json_tokener_free(tokener);
    return root;
}

static void read_file(struct reader *reader)
{
    struct file file;
    reader->status = file_open(&file, reader->command, reader->path);
    if (reader->status != EXIT_DONE)
        return;
    struct json_object *root = parse(reader, &file);
    file_close(&file);
    if (reader->status == EXIT_DONE)
        read_root(reader, root);
    json_object_put(root);
}

int bundle_open(struct bundle *bundle, const char *command, const char *path)
{
    struct stat st;
    struct reader reader = {.bundle = bundle, .command = command, .path = path};
    *bundle = (struct bundle){0};
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        reader.path = keep_text(&reader, path, (int)strlen(path),
                                path[strlen(path) - 1] == '/' ? "trace.json" : "/trace.json");
    else
        reader.path = keep_text(&reader, path, 0, path);
    reader.folder = (int)(file_name(reader.path) - reader.path);
    if (reader.status == EXIT_DONE)
        read_file(&reader);
    if (reader.status != EXIT_DONE)
        bundle_close(bundle);
    return reader.status;
}

bool bundle_is(const char *path)
{
    struct stat st;
    char text[4096];
    FILE *file = !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;
    if (!file)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    return text[strspn(text, " \t\r\n")] == '{' && strstr(text, "\"intel-pt\"");
}

bool bundle_names(const struct bundle *bundle, const char *path)
{
    for (const struct bundle_text *text = bundle->texts; text; text = text->next)
        if (is_same_file(text->text, path))
            return true;
    return false;
}

void bundle_close(struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->processes_n; i++) {
        free(bundle->processes[i].threads);
        free(bundle->processes[i].modules);
    }
    free(bundle->processes);
    free(bundle->cpus);
    for (struct bundle_text *text = bundle->texts, *next; text; text = next) {
        next = text->next;
        free(text);
    }
    *bundle = (struct bundle){0};
}

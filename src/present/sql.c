/* SPDX-License-Identifier: MIT
 * A timeline -> a script for SQLite. Tables, columns and the root of paths (1) are those of perf's
 * export-to-sqlite, so that what was written for these goes on working; what perf's do not have
 * (untraced, gaps) is beside them. See decision 0810.
 *
 * Threads are written by writers that know nothing of each other: what they share (modules, functions,
 * paths of calls) has numbers made of what it is, and whoever comes first puts it. */
#include "present/timeline.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/index.h"
#include "base/strings.h"

enum { ROOT = 1, NUMBER_SHIFT = 40 /* a row's number: the thread's above its own */, FLAG_NO_RETURN = 2 };

/* The functions on the way to a call. Row 0 is the root. */
struct path {
    uint64_t id;
    uint32_t parent;
    struct cofi_function function;
};

/* A call that has not been left. */
struct shown {
    uint64_t id, ns;
    uint32_t path;
};

struct sql {
    struct path *paths;
    size_t paths_n, paths_room;
    struct cofi__index by_path; /* (parent, function's start) -> row */
    struct shown *stack;
    size_t depth, room;
    uint64_t calls, gaps, offs; /* how many rows have been written or begun */
    struct mark off;            /* the last one */
};

/* ---- values ---- */

/* In quotes, as UTF-8, without control characters: SQLite's shell obeys some that begin a line. */
static void put_string(struct cofi_timeline *t, const char *text)
{
    if (!text) {
        put_text(&t->out, "NULL");
        return;
    }
    put_text(&t->out, "'");
    while (*text) {
        size_t n = cofi__utf8_length(text);
        if ((unsigned char)*text < ' ')
            put_text(&t->out, "?");
        else if (*text == '\'')
            put_text(&t->out, "''");
        else
            put_bytes(&t->out, n ? text : "\xef\xbf\xbd", n ? n : 3);
        text += n ? n : 1;
    }
    put_text(&t->out, "'");
}

static __attribute__((format(printf, 2, 3))) void put_format(struct cofi_timeline *t, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put_text(&t->out, text);
}

/* SQLite's numbers have a sign; 0 and the root are taken. */
static uint64_t number_of(uint64_t hash) { return hash >> 1 > ROOT ? hash >> 1 : hash >> 1 | 2; }

static uint64_t row_number(const struct cofi_timeline *t, uint64_t n)
{
    return (uint64_t)t->options.number << NUMBER_SHIFT | n;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ a >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + b;
    return (x ^ x >> 32) * UINT64_C(0x94d049bb133111eb);
}

/* ---- functions and paths ---- */

static uint64_t module_number(const struct cofi_function *function)
{
    return function->module ? number_of(cofi__text_hash(function->module)) : 0;
}

/* Of one module and name there may be several: they are told apart by their place in a page, which is
 * where it is wherever the module lies. */
static uint64_t put_function(struct cofi_timeline *t, const struct cofi_function *function)
{
    enum { PAGE = 4096 };
    char name[COFI_NAME_BYTES];
    cofi_function_print(function, name, sizeof name);
    uint64_t module = module_number(function),
             id = number_of(mix(mix(module, cofi__text_hash(name)), function->start % PAGE));
    if (module) {
        put_format(t, "INSERT OR IGNORE INTO dsos VALUES(%" PRIu64 ",1,", module);
        put_string(t, cofi__file_name(function->module));
        put_text(&t->out, ",");
        put_string(t, function->module);
        put_text(&t->out, ",NULL);\n");
    }
    put_format(t, "INSERT OR IGNORE INTO symbols VALUES(%" PRIu64 ",%" PRIu64 ",%" PRId64 ",NULL,NULL,", id, module,
               (int64_t)function->start);
    put_string(t, name);
    put_text(&t->out, ");\n");
    return id;
}

static int add_path(struct cofi_timeline *t, uint32_t parent, const struct cofi_function *function, uint32_t hash)
{
    struct sql *sql = t->state;
    COFI_TRY(cofi__array_grow(&sql->paths, &sql->paths_room, sql->paths_n, sizeof *sql->paths));
    COFI_TRY(cofi__index_add(&sql->by_path, hash, (uint32_t)sql->paths_n));
    uint64_t symbol = put_function(t, function), above = sql->paths[parent].id, id = number_of(mix(above, symbol));
    put_format(t, "INSERT OR IGNORE INTO call_paths VALUES(%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ");\n", id,
               above, symbol, (int64_t)function->start);
    sql->paths[sql->paths_n++] = (struct path){id, parent, *function};
    return 0;
}

static bool is_path(const struct sql *sql, uint32_t row, uint32_t parent, const struct cofi_function *function)
{
    const struct path *path = &sql->paths[row];
    return path->parent == parent && path->function.start == function->start &&
           cofi__same_text(path->function.name, function->name) &&
           cofi__same_text(path->function.module, function->module);
}

/* The path, known or new. 0: out of memory. */
static uint32_t path_of(struct cofi_timeline *t, uint32_t parent, const struct cofi_function *function)
{
    struct sql *sql = t->state;
    uint32_t hash = cofi__hash(function->start, parent), at = hash, row;
    do
        row = cofi__index_next(&sql->by_path, hash, &at);
    while (row && !is_path(sql, row, parent, function));
    if (row)
        return row;
    return add_path(t, parent, function, hash) < 0 ? 0 : (uint32_t)sql->paths_n - 1;
}

/* ---- calls ---- */

static void enter(struct cofi_timeline *t, const struct mark *mark)
{
    struct sql *sql = t->state;
    uint32_t path = path_of(t, sql->depth ? sql->stack[sql->depth - 1].path : 0, &mark->function);
    if (!path || cofi__array_grow(&sql->stack, &sql->room, sql->depth, sizeof *sql->stack) < 0) {
        timeline_failed(t);
        return;
    }
    sql->stack[sql->depth++] = (struct shown){row_number(t, ++sql->calls), mark->when.ns, path};
}

/* The call that runs; 0: none. */
static uint64_t current(const struct sql *sql) { return sql->depth ? sql->stack[sql->depth - 1].id : 0; }

static void leave(struct cofi_timeline *t, const struct mark *mark)
{
    struct sql *sql = t->state;
    if (!sql->depth) /* memory was out when it was entered */
        return;
    const struct shown *call = &sql->stack[--sql->depth];
    const struct path *path = &sql->paths[call->path];
    put_format(t,
               "INSERT INTO calls VALUES(%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
               ",0,NULL,NULL,%" PRIu64 ",%u,%" PRIu64 ",%" PRIu64 ",0);\n",
               call->id, t->options.number, t->options.number, path->id, call->ns, mark->when.ns,
               sql->paths[path->parent].id, mark->runs ? FLAG_NO_RETURN : 0, current(sql), mark->insns);
}

static void on(struct cofi_timeline *t, const struct mark *mark)
{
    struct sql *sql = t->state;
    put_format(t, "INSERT INTO untraced VALUES(%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
               row_number(t, ++sql->offs), t->options.number, current(sql), sql->off.when.ns, mark->when.ns);
    put_string(t, sql->off.function.name);
    put_text(&t->out, ");\n");
}

static void gap(struct cofi_timeline *t, const struct mark *mark)
{
    struct sql *sql = t->state;
    put_format(t, "INSERT INTO gaps VALUES(%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",",
               row_number(t, ++sql->gaps), t->options.number, current(sql), mark->when.ns);
    put_string(t, mark->text);
    put_text(&t->out, ");\n");
}

static void put_mark(struct cofi_timeline *t, const struct mark *mark)
{
    struct sql *sql = t->state;
    switch (mark->kind) {
    case MARK_ENTER: enter(t, mark); break;
    case MARK_LEAVE: leave(t, mark); break;
    case MARK_OFF: sql->off = *mark; break;
    case MARK_ON: on(t, mark); break;
    case MARK_GAP: gap(t, mark); break;
    }
}

/* ---- a thread ---- */

static const char head[] =
    "PRAGMA synchronous=OFF;\n"
    "BEGIN;\n"
    "CREATE TABLE selected_events(id INTEGER PRIMARY KEY, name TEXT);\n"
    "CREATE TABLE machines(id INTEGER PRIMARY KEY, pid INTEGER, root_dir TEXT);\n"
    "CREATE TABLE threads(id INTEGER PRIMARY KEY, machine_id INTEGER, process_id INTEGER, pid INTEGER, tid INTEGER);\n"
    "CREATE TABLE comms(id INTEGER PRIMARY KEY, comm TEXT, c_thread_id INTEGER, c_time INTEGER, exec_flag INTEGER);\n"
    "CREATE TABLE comm_threads(id INTEGER PRIMARY KEY, comm_id INTEGER, thread_id INTEGER);\n"
    "CREATE TABLE dsos(id INTEGER PRIMARY KEY, machine_id INTEGER, short_name TEXT, long_name TEXT, build_id TEXT);\n"
    "CREATE TABLE symbols(id INTEGER PRIMARY KEY, dso_id INTEGER, sym_start INTEGER, sym_end INTEGER, binding INTEGER, name TEXT);\n"
    "CREATE TABLE call_paths(id INTEGER PRIMARY KEY, parent_id INTEGER, symbol_id INTEGER, ip INTEGER);\n"
    "CREATE TABLE calls(id INTEGER PRIMARY KEY, thread_id INTEGER, comm_id INTEGER, call_path_id INTEGER, call_time INTEGER, return_time INTEGER,"
    " branch_count INTEGER, call_id INTEGER, return_id INTEGER, parent_call_path_id INTEGER, flags INTEGER, parent_id INTEGER, insn_count INTEGER,"
    " cyc_count INTEGER);\n"
    "CREATE TABLE untraced(id INTEGER PRIMARY KEY, thread_id INTEGER, call_id INTEGER, time INTEGER, end_time INTEGER, reason TEXT);\n"
    "CREATE TABLE gaps(id INTEGER PRIMARY KEY, thread_id INTEGER, call_id INTEGER, time INTEGER, reason TEXT);\n"
    "CREATE VIEW calls_view AS SELECT calls.id, threads.pid, threads.tid, comms.comm AS command, call_path_id, symbols.name AS symbol,"
    " dsos.short_name AS dso, call_time, return_time, return_time - call_time AS elapsed_time, insn_count, flags, parent_call_path_id,"
    " calls.parent_id FROM calls JOIN threads ON threads.id = thread_id JOIN comms ON comms.id = comm_id"
    " JOIN call_paths ON call_paths.id = call_path_id JOIN symbols ON symbols.id = symbol_id LEFT JOIN dsos ON dsos.id = dso_id;\n"
    "INSERT INTO machines VALUES(0,0,'unknown'),(1,-1,'');\n"
    "INSERT INTO dsos VALUES(0,0,'unknown','unknown','');\n"
    "INSERT INTO symbols VALUES(0,0,0,0,0,'unknown');\n"
    "INSERT INTO call_paths VALUES(1,0,0,0);\n";

static const char tail[] =
    "CREATE INDEX calls_by_parent ON calls(parent_id);\n"
    "CREATE INDEX calls_by_path ON calls(parent_call_path_id);\n"
    "CREATE INDEX calls_by_own_path ON calls(call_path_id);\n"
    "COMMIT;\n";

static void begin(struct cofi_timeline *t)
{
    const struct cofi_timeline_options *options = &t->options;
    struct sql *sql = t->state = calloc(1, sizeof *sql);
    if (options->first)
        put_text(&t->out, head);
    put_format(t, "INSERT INTO threads VALUES(%" PRIu32 ",1,%d,%d,%d);\n", options->number, options->pid, options->pid,
               options->tid);
    put_format(t, "INSERT INTO comms VALUES(%" PRIu32 ",", options->number);
    put_string(t, options->comm);
    put_format(t, ",%" PRIu32 ",0,0);\n", options->number);
    put_format(t, "INSERT INTO comm_threads VALUES(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ");\n", options->number,
               options->number, options->number);
    if (!sql || cofi__index_init(&sql->by_path) < 0 ||
        cofi__array_grow(&sql->paths, &sql->paths_room, 0, sizeof *sql->paths) < 0) {
        timeline_failed(t);
        return;
    }
    sql->paths[sql->paths_n++] = (struct path){.id = ROOT};
}

static void finish(struct cofi_timeline *t)
{
    struct sql *sql = t->state;
    if (!sql)
        return;
    free(sql->paths);
    free(sql->stack);
    cofi__index_free(&sql->by_path);
    free(sql);
}

const struct timeline_writer cofi__sql = {begin, put_mark, finish, tail};

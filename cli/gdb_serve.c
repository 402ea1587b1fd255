/* SPDX-License-Identifier: MIT
 * Requests of GDB -> replies about a recorded process [GDB Remote Serial Protocol]. See gdb_serve.h.
 * Nothing can be run or written. Without a core file only the instruction pointer is known of the
 * registers: GDB shows the others as unavailable. What ran is told as a branch trace of the kind "bts",
 * blocks of addresses, in which it goes back and forth by itself. */
#include "gdb_serve.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "gdb_wire.h"

/* What GDB may ask for at once. */
enum { PACKET_BYTES = 1 << 17, MEMORY_BYTES = 1 << 12 };

/* A document that is handed out in pieces: what it was asked for by, up to the offset. */
struct document {
    char name[128];
    char *text;
    size_t n;
};

struct server {
    const struct gdb_target *target;
    struct gdb_wire wire;
    const struct gdb_thread *thread; /* whom requests are about */
    struct document document;
    bool leave;
};

typedef void answer(struct server *server, const char *arguments, FILE *reply);

/* ---- documents ---- */

/* UTF-8 without control characters: what XML can hold. */
static bool is_text(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        int more = *c < 0x80 ? 0 : *c < 0xc2 ? -1 : *c < 0xe0 ? 1 : *c < 0xf0 ? 2 : *c < 0xf5 ? 3 : -1;
        if (more < 0 || *c < ' ')
            return false;
        for (c++; more; more--)
            if ((*c++ & 0xc0) != 0x80)
                return false;
    }
    return true;
}

static void write_xml(FILE *out, const char *text)
{
    bool whole = is_text(text);
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(whole || (*text >= ' ' && *text < 0x7f) ? *text : '?', out);
}

static void write_features(const struct server *server, const char *annex, FILE *out)
{
    (void)annex;
    fprintf(out, "<target version=\"1.0\"><architecture>%s</architecture><osabi>GNU/Linux</osabi></target>\n",
            server->thread->mode == 32 ? "i386" : "i386:x86-64");
}

static void write_threads(const struct server *server, const char *annex, FILE *out)
{
    const struct gdb_history *history = server->target->history;
    char name[sizeof history->threads->name];
    (void)annex;
    fputs("<threads>\n", out);
    for (size_t i = 0; i < history->n; i++) {
        fprintf(out, "<thread id=\"%x\" name=\"", (unsigned)history->threads[i].tid);
        write_xml(out, in_a_line(history->threads[i].name, name, sizeof name));
        fputs("\"/>\n", out);
    }
    fputs("</threads>\n", out);
}

static void write_program(const struct server *server, const char *annex, FILE *out)
{
    const struct gdb_modules *modules = server->target->modules;
    (void)annex;
    if (modules->program < modules->n)
        fputs(modules->all[modules->program].path, out);
}

/* By the entry GDB finds out where the program was moved to. */
static void write_made_auxv(const struct server *server, const struct gdb_module *program, FILE *out)
{
    size_t bytes = server->thread->mode == 32 ? 4 : 8;
    const uint64_t vector[] = {AT_PHDR, program->headers, AT_PHENT, program->header_bytes, AT_PHNUM, program->headers_n,
                               AT_PAGESZ, 4096, AT_ENTRY, program->entry, AT_NULL, 0};
    for (size_t i = 0; i < sizeof vector / sizeof vector[0]; i++)
        for (size_t k = 0; k < bytes; k++)
            fputc((int)(vector[i] >> 8 * k & 0xff), out);
}

static void write_auxv(const struct server *server, const char *annex, FILE *out)
{
    const struct gdb_modules *modules = server->target->modules;
    const struct gdb_core *core = server->target->core;
    (void)annex;
    if (core->auxv)
        fwrite(core->auxv, 1, core->auxv_bytes, out);
    else if (modules->program < modules->n)
        write_made_auxv(server, &modules->all[modules->program], out);
}

/* The link maps themselves are data, which nobody recorded: each gets a number in place of its address. */
static void write_libraries(const struct server *server, const char *annex, FILE *out)
{
    const struct gdb_modules *modules = server->target->modules;
    (void)annex;
    fputs("<library-list-svr4 version=\"1.0\">\n", out);
    for (size_t i = 0; i < modules->n; i++) {
        const struct gdb_module *module = &modules->all[i];
        if (i == modules->program || !module->dynamic || !is_text(module->path))
            continue;
        fputs("<library name=\"", out);
        write_xml(out, module->path);
        fprintf(out, "\" lmid=\"0x0\" lm=\"0x%zx\" l_addr=\"0x%" PRIx64 "\" l_ld=\"0x%" PRIx64 "\"/>\n", i + 1,
                module->base, module->dynamic);
    }
    fputs("</library-list-svr4>\n", out);
}

/* The newest block first. GDB knows what was there before from its first question on. */
static void write_blocks(const struct server *server, const char *annex, FILE *out)
{
    const struct gdb_thread *thread = server->thread;
    fputs("<btrace version=\"1.0\">\n", out);
    for (size_t i = thread->n; i > thread->from && !strcmp(annex, "all"); i--)
        fprintf(out, "<block begin=\"0x%" PRIx64 "\" end=\"0x%" PRIx64 "\"/>\n", thread->blocks[i - 1].first,
                thread->blocks[i - 1].last);
    fputs("</btrace>\n", out);
}

/* That there is a size tells GDB that branches are being recorded. */
static void write_blocks_conf(const struct server *server, const char *annex, FILE *out)
{
    const struct gdb_thread *thread = server->thread;
    (void)annex;
    fprintf(out, "<btrace-conf version=\"1.0\"><bts size=\"0x%zx\"/></btrace-conf>\n",
            (thread->n - thread->from) * 3 * sizeof(uint64_t));
}

static const struct object {
    const char *name;
    void (*write)(const struct server *server, const char *annex, FILE *out);
} objects[] = {
    {"features", write_features}, {"threads", write_threads}, {"exec-file", write_program}, {"auxv", write_auxv},
    {"libraries-svr4", write_libraries}, {"btrace", write_blocks}, {"btrace-conf", write_blocks_conf},
};

/* "name:read:annex" of the current thread. False: there is none, nothing is known of it, or memory is out. */
static bool make_document(struct server *server, const char *name)
{
    struct document *document = &server->document;
    const char *annex = strchr(name, ':');
    annex = annex && !strncmp(annex, ":read:", 6) ? annex + 6 : NULL;
    for (size_t i = 0; i < sizeof objects / sizeof objects[0] && annex; i++) {
        size_t n = strlen(objects[i].name);
        if (strncmp(name, objects[i].name, n) || name[n] != ':')
            continue;
        free(document->text);
        *document = (struct document){0};
        FILE *out = open_memstream(&document->text, &document->n);
        if (!out)
            return false;
        objects[i].write(server, annex, out);
        if (fclose(out))
            return false;
        snprintf(document->name, sizeof document->name, "%s", name);
        return document->n > 0;
    }
    return false;
}

/* name:read:annex:offset,length */
static void transfer(struct server *server, const char *arguments, FILE *reply)
{
    char name[sizeof server->document.name];
    const char *place = strrchr(arguments, ':');
    uint64_t offset, length;
    if (!place || (size_t)(place - arguments) >= sizeof name ||
        sscanf(place, ":%" SCNx64 ",%" SCNx64, &offset, &length) != 2) {
        fputs("E01", reply);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(place - arguments), arguments);
    struct document *document = &server->document;
    if ((!offset || strcmp(document->name, name)) && !make_document(server, name)) {
        fputs("E00", reply);
        return;
    }
    size_t at = offset < document->n ? (size_t)offset : document->n, n = document->n - at;
    n = length < n ? (size_t)length : n;
    n = n < PACKET_BYTES / 2 ? n : PACKET_BYTES / 2;
    fputc(at + n < document->n ? 'm' : 'l', reply);
    fwrite(document->text + at, 1, n, reply);
}

/* ---- threads ---- */

static const struct gdb_thread *thread_of(const struct server *server, const char *number)
{
    const struct gdb_history *history = server->target->history;
    int32_t tid = (int32_t)strtol(number, NULL, 16);
    if (tid <= 0) /* any */
        return server->thread;
    for (size_t i = 0; i < history->n; i++)
        if (history->threads[i].tid == tid)
            return &history->threads[i];
    return NULL;
}

/* H, and for what kind of request. */
static void select_thread(struct server *server, const char *arguments, FILE *reply)
{
    const struct gdb_thread *thread = *arguments ? thread_of(server, arguments + 1) : NULL;
    if (thread && thread != server->thread) {
        server->thread = thread;
        server->document.name[0] = 0; /* it was of another */
    }
    fputs(thread ? "OK" : "E01", reply);
}

static void is_alive(struct server *server, const char *arguments, FILE *reply)
{
    fputs(thread_of(server, arguments) ? "OK" : "E01", reply);
}

static void current_thread(struct server *server, const char *arguments, FILE *reply)
{
    (void)arguments;
    fprintf(reply, "QC%x", (unsigned)server->thread->tid);
}

static void stopped(struct server *server, const char *arguments, FILE *reply)
{
    (void)arguments;
    fprintf(reply, "T05thread:%x;", (unsigned)server->thread->tid);
}

/* Whatever is to run has run: there is no more of it. */
static void resume(struct server *server, const char *arguments, FILE *reply)
{
    (void)arguments;
    fprintf(reply, "T05thread:%x;replaylog:end;", (unsigned)server->thread->tid);
}

/* ---- registers and memory ---- */

/* The instruction pointer stands behind the general registers. */
enum { PC_32 = 8, PC_64 = 16 };

static void write_register(const struct server *server, unsigned number, FILE *reply)
{
    const struct gdb_thread *thread = server->thread;
    bool is_32 = thread->mode == 32;
    uint8_t pc[8];
    const uint8_t *bytes;
    size_t n = gdb_core_register(is_32, thread->state, number, &bytes);
    for (size_t i = 0; i < sizeof pc; i++)
        pc[i] = (uint8_t)(thread->pc >> 8 * i);
    if (number == (is_32 ? PC_32 : PC_64))
        bytes = pc;
    for (size_t i = 0; i < n && bytes; i++)
        fprintf(reply, "%02x", bytes[i]);
    for (size_t i = 0; i < n && !bytes; i++)
        fputs("xx", reply);
}

static void read_registers(struct server *server, const char *arguments, FILE *reply)
{
    (void)arguments;
    for (unsigned i = 0; i < gdb_core_registers(server->thread->mode == 32); i++)
        write_register(server, i, reply);
}

/* gdb asks for those alone that were left out behind them. */
static void read_register(struct server *server, const char *arguments, FILE *reply)
{
    unsigned long number = strtoul(arguments, NULL, 16);
    if (number < gdb_core_registers(server->thread->mode == 32))
        write_register(server, (unsigned)number, reply);
    else
        fputs("xxxxxxxx", reply);
}

/* The process's memory, as far as a core has it; code, and what the files hold beside it that is not
 * written to. Null: it is not known. */
static const uint8_t *find_bytes(const struct gdb_target *target, uint64_t addr, size_t *n)
{
    struct cofi_code code;
    const uint8_t *bytes = gdb_core_memory(target->core, addr, n);
    if (bytes)
        return bytes;
    if (cofi_view_find(target->view, addr, &code) < 0 && gdb_modules_constant(target->modules, addr, &code) < 0)
        return NULL;
    *n = (size_t)(code.end - addr);
    return code.bytes + (addr - code.start);
}

static void read_memory(struct server *server, const char *arguments, FILE *reply)
{
    uint64_t addr, length, got = 0;
    const uint8_t *bytes;
    size_t n;
    if (sscanf(arguments, "%" SCNx64 ",%" SCNx64, &addr, &length) != 2)
        length = 0;
    length = length < MEMORY_BYTES ? length : MEMORY_BYTES;
    for (; got < length && (bytes = find_bytes(server->target, addr + got, &n)); got += n) {
        n = n < length - got ? n : (size_t)(length - got);
        for (size_t i = 0; i < n; i++)
            fprintf(reply, "%02x", bytes[i]);
    }
    if (!got)
        fputs("E01", reply);
}

/* ---- the rest ---- */

static void agree(struct server *server, const char *arguments, FILE *reply)
{
    (void)server;
    (void)arguments;
    fputs("OK", reply);
}

static void refuse(struct server *server, const char *arguments, FILE *reply)
{
    (void)server;
    (void)arguments;
    fputs("E01", reply);
}


static void leave(struct server *server, const char *arguments, FILE *reply)
{
    server->leave = true;
    agree(server, arguments, reply);
}

static void attached(struct server *server, const char *arguments, FILE *reply)
{
    (void)server;
    (void)arguments;
    fputc('1', reply); /* so that GDB lets go of it at its end, and asks nothing */
}

static void actions(struct server *server, const char *arguments, FILE *reply)
{
    (void)server;
    (void)arguments;
    fputs("vCont;c;C;s;S", reply);
}

static void supported(struct server *server, const char *arguments, FILE *reply)
{
    (void)server;
    (void)arguments;
    fprintf(reply, "PacketSize=%x;QStartNoAckMode+;Qbtrace:bts+;Qbtrace:off+", (unsigned)PACKET_BYTES);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        fprintf(reply, ";qXfer:%s:read+", objects[i].name);
}

/* The first that a request begins with. What is none of them is answered by nothing: it is not supported. */
static const struct {
    const char *request;
    answer *answer;
} answers[] = {
    {"qSupported", supported},
    {"qXfer:", transfer},
    {"qAttached", attached},
    {"qCRC:", refuse},
    {"qC", current_thread},
    {"QStartNoAckMode", agree},
    {"Qbtrace:", agree},
    {"vCont?", actions},
    {"vCont;", resume},
    {"vKill", leave},
    {"?", stopped},
    {"H", select_thread},
    {"T", is_alive},
    {"g", read_registers},
    {"G", refuse},
    {"p", read_register},
    {"P", refuse},
    {"m", read_memory},
    {"M", refuse},
    {"X", refuse},
    {"Z0", agree},
    {"Z1", agree},
    {"z0", agree},
    {"z1", agree},
    {"c", resume},
    {"C", resume},
    {"s", resume},
    {"S", resume},
    {"\3", stopped},
    {"D", leave},
    {"k", leave},
};

static void reply_to(struct server *server, const char *request, FILE *reply)
{
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        size_t n = strlen(answers[i].request);
        if (!strncmp(request, answers[i].request, n)) {
            answers[i].answer(server, request + n, reply);
            return;
        }
    }
}

/* False: the other side is gone, or memory is out. */
static bool serve_one(struct server *server, const char *request)
{
    char *text = NULL;
    size_t n = 0;
    FILE *reply = open_memstream(&text, &n);
    if (!reply)
        return false;
    reply_to(server, request, reply);
    bool sent = !fclose(reply) && gdb_wire_send(&server->wire, text, n);
    server->wire.no_ack |= !strcmp(request, "QStartNoAckMode");
    free(text);
    return sent;
}

void gdb_serve(const struct gdb_target *target, int in, int out)
{
    struct server server = {.target = target, .wire = {.in = in, .out = out},
                            .thread = &target->history->threads[target->history->shown]};
    const char *request;
    while (!server.leave && (request = gdb_wire_read(&server.wire)) && serve_one(&server, request)) {
    }
    free(server.document.text);
}

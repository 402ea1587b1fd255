/* SPDX-License-Identifier: MIT
 * Scenario text -> its sections' lines and its code. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "sim.h"

int sim_fail(const struct scenario *scenario, unsigned line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "cofi sim: %s:%u: ", scenario->path, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_DATA;
}

int sim_add_code(struct scenario *scenario, uint64_t address, uint8_t *bytes, size_t n)
{
    void *p = realloc(scenario->code, (scenario->code_n + 1) * sizeof *scenario->code);
    if (!p) {
        free(bytes);
        return EXIT_ENVIRONMENT;
    }
    scenario->code = p;
    scenario->code[scenario->code_n++] = (struct sim_code){address, bytes, n};
    return 0;
}

/* The reader's place. */
struct reader {
    struct scenario *scenario;
    char *next; /* the rest of the text, null at the end */
    unsigned line;
    bool run_assembler;
};

/* The next line without comment and trailing blanks; null at the end. */
static char *read_line(struct reader *r, bool *indented)
{
    char *line = r->next;
    if (!line)
        return NULL;
    r->line++;
    char *end = strchr(line, '\n');
    r->next = end ? end + 1 : NULL;
    if (end)
        *end = 0;
    line[strcspn(line, "#\r")] = 0;
    *indented = *line == ' ' || *line == '\t';
    for (size_t n = strlen(line); n > 0 && isspace((unsigned char)line[n - 1]); n--)
        line[n - 1] = 0;
    return line + strspn(line, " \t");
}

static int add_line(struct reader *r, enum sim_section section, char *text)
{
    struct scenario *s = r->scenario;
    if (section != SIM_BYTES && strlen(text) >= SIM_LINE)
        return sim_fail(s, r->line, "a line of more than %d characters", SIM_LINE - 1);
    if ((s->n[section] & (s->n[section] - 1)) == 0) { /* at each power of two, double */
        size_t room = s->n[section] ? 2 * s->n[section] : 1;
        void *p = realloc(s->lines[section], room * sizeof(struct sim_line));
        if (!p)
            return EXIT_ENVIRONMENT;
        s->lines[section] = p;
    }
    char *copy = strdup(text);
    if (!copy)
        return EXIT_ENVIRONMENT;
    s->lines[section][s->n[section]++] = (struct sim_line){r->line, copy};
    return 0;
}

static bool is_indented(const char *next)
{
    return next && (*next == ' ' || *next == '\t' || *next == '\n' || *next == '#');
}

/* "code ADDRESS", then indented lines of hexadecimal bytes. */
static int parse_code(struct reader *r, uint64_t address)
{
    unsigned start = r->line;
    uint8_t *bytes = NULL;
    size_t n = 0, room = 0;
    while (is_indented(r->next)) {
        bool indented;
        char *text = read_line(r, &indented);
        for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
            char *end;
            unsigned long value = strtoul(word, &end, 16);
            if (*end || end - word > 2 || value > 255) {
                free(bytes);
                return sim_fail(r->scenario, r->line, "'%s' is no byte: two hexadecimal digits are needed", word);
            }
            if (!array_grow(&bytes, n, &room, 1)) {
                free(bytes);
                return EXIT_ENVIRONMENT;
            }
            bytes[n++] = (uint8_t)value;
        }
    }
    if (n == 0) {
        free(bytes);
        return sim_fail(r->scenario, start, "code without bytes: give them on indented lines");
    }
    return sim_add_code(r->scenario, address, bytes, n);
}

/* "asm ADDRESS [16|32|64]", then indented lines of assembler. */
static int parse_asm(struct reader *r, uint64_t address, unsigned mode)
{
    unsigned start = r->line;
    size_t n = 0, room = 0;
    char *text = NULL;
    while (is_indented(r->next)) {
        bool indented;
        for (const char *p = read_line(r, &indented);; p++) {
            if (!array_grow(&text, n + 1, &room, 1)) {
                free(text);
                return EXIT_ENVIRONMENT;
            }
            text[n++] = *p ? *p : '\n';
            if (!*p)
                break;
        }
    }
    int status;
    if (n == 0) {
        status = sim_fail(r->scenario, start, "asm without text: give it on indented lines");
    } else if (!r->run_assembler) {
        status = sim_fail(r->scenario, start, "asm is not possible here: give code as bytes");
    } else {
        text[n] = 0;
        status = sim_assemble(r->scenario, start, address, mode, text);
    }
    free(text);
    return status;
}

static int parse_address(struct reader *r, const char *word, uint64_t *address)
{
    char *end;
    errno = 0;
    if (!word || !isxdigit((unsigned char)*word))
        return sim_fail(r->scenario, r->line, "a hexadecimal address is needed");
    *address = strtoull(word, &end, 16);
    if (*end || errno)
        return sim_fail(r->scenario, r->line, "'%s' is no hexadecimal address", word);
    return 0;
}

static int parse_code_head(struct reader *r, char *line)
{
    bool assembler = *line == 'a';
    uint64_t address = 0;
    strtok(line, " \t");
    int status = parse_address(r, strtok(NULL, " \t"), &address);
    if (status)
        return status;
    const char *mode = strtok(NULL, " \t");
    if (!assembler)
        return parse_code(r, address);
    if (mode && strcmp(mode, "16") && strcmp(mode, "32") && strcmp(mode, "64"))
        return sim_fail(r->scenario, r->line, "'%s' is no mode: 16, 32 or 64", mode);
    return parse_asm(r, address, mode ? (unsigned)strtoul(mode, NULL, 10) : 64);
}

/* The section that a line at the margin opens; -1 if it opens none. */
static int find_section(const char *line)
{
    static const char *const names[SIM_SECTIONS] = {NULL, "events", "packets", "bytes", "flow", "registers"};
    for (int i = 1; i < SIM_SECTIONS; i++)
        if (!strcmp(line, names[i]))
            return i;
    return -1;
}

static bool starts(const char *line, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(line, word, n) && strchr(" \t\r\n", line[n]); /* or the text ends */
}

static int parse_text(struct reader *r)
{
    enum sim_section section = SIM_SETUP;
    bool indented;
    for (char *line = read_line(r, &indented); line; line = read_line(r, &indented)) {
        int found = indented ? -1 : find_section(line), status = 0;
        if (!*line)
            continue;
        if (found >= 0) {
            section = (enum sim_section)found;
            r->scenario->has[section] = true;
        } else if (!indented && (starts(line, "code") || starts(line, "asm"))) {
            status = parse_code_head(r, line);
        } else {
            if (!indented)
                section = SIM_SETUP;
            status = add_line(r, section, line);
        }
        if (status)
            return status;
    }
    return 0;
}

/* ---- the scenarios of a file ---- */

/* The first line from here on that begins a scenario; null: none. Counts those before it. */
static char *find_scenario(char *text, unsigned *lines)
{
    for (char *line = text; line; ++*lines) {
        if (starts(line, "scenario"))
            return line;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return NULL;
}

/* text, ended where `next`, in it, begins; null where nothing is left. */
static char *cut(char *text, char *next)
{
    if (next == text)
        return NULL;
    if (next)
        next[-1] = 0;
    return text;
}

void sim_file_begin(struct sim_file *file, const char *path, char *text)
{
    unsigned lines = 0;
    char *first = find_scenario(text, &lines);
    *file = (struct sim_file){.path = path, .rest = text};
    if (first)
        *file = (struct sim_file){.path = path, .many = true, .common = cut(text, first), .rest = first,
                                  .rest_line = lines};
}

bool sim_file_next(struct sim_file *file)
{
    if (!file->rest)
        return false;
    file->text = file->rest;
    file->line = file->rest_line;
    file->rest = NULL;
    if (!file->many)
        return true;
    struct reader r = {.next = file->text, .line = file->line};
    bool indented;
    file->name = read_line(&r, &indented) + strlen("scenario");
    file->name += strspn(file->name, " \t");
    file->text = r.next;
    file->line = file->rest_line = r.line;
    file->rest = find_scenario(file->text, &file->rest_line);
    file->text = cut(file->text, file->rest);
    return true;
}

int sim_parse(struct scenario *scenario, struct sim_file *file, bool run_assembler)
{
    struct reader r = {.scenario = scenario, .line = file->line, .run_assembler = run_assembler};
    *scenario = (struct scenario){.path = file->path, .name = file->name};
    if (file->many && !*file->name)
        return sim_fail(scenario, file->line, "scenario NAME is needed");
    if (file->common) {
        char *common = strdup(file->common); /* reading changes it */
        struct reader before = {.scenario = scenario, .next = common, .run_assembler = run_assembler};
        int status = common ? parse_text(&before) : EXIT_ENVIRONMENT;
        free(common);
        if (status)
            return status;
    }
    r.next = file->text;
    return parse_text(&r);
}

void sim_free(struct scenario *scenario)
{
    for (int i = 0; i < SIM_SECTIONS; i++) {
        for (size_t k = 0; k < scenario->n[i]; k++)
            free(scenario->lines[i][k].text);
        free(scenario->lines[i]);
    }
    for (size_t i = 0; i < scenario->code_n; i++)
        free(scenario->code[i].bytes);
    free(scenario->code);
}

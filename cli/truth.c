/* SPDX-License-Identifier: MIT
 * Lines "TID ADDRESS" -> a list of addresses a thread. */
#include "truth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static struct truth_thread *thread_of(struct truth *truth, int32_t tid)
{
    for (size_t i = truth->n; i-- > 0;)
        if (truth->threads[i].tid == tid)
            return &truth->threads[i];
    struct truth_thread *larger = realloc(truth->threads, (truth->n + 1) * sizeof *larger);
    if (!larger)
        return NULL;
    truth->threads = larger;
    larger[truth->n] = (struct truth_thread){.tid = tid};
    return &larger[truth->n++];
}

/* Append a number to a growing array. */
static int append(uint64_t **array, uint64_t *n, uint64_t *room, uint64_t value)
{
    if (*n == *room) {
        uint64_t larger_room = *room ? *room * 2 : 1024;
        uint64_t *larger = realloc(*array, larger_room * sizeof *larger);
        if (!larger)
            return -1;
        *array = larger;
        *room = larger_room;
    }
    (*array)[(*n)++] = value;
    return 0;
}

/* Null, or what is wrong. */
static const char *read_line(struct truth *truth, struct truth_thread **last, const char *line)
{
    static const char malformed[] = "not a line \"TID ADDRESS\"", no_memory[] = "out of memory";
    char *end;
    long tid = strtol(line, &end, 10);
    if (end == line || *end != ' ')
        return malformed;
    const char *digits = end + 1;
    uint64_t ip = strtoull(digits, &end, 16);
    bool interrupt = !strcmp(end, " int\n");
    if (end == digits || (*end != '\n' && !interrupt))
        return malformed;
    /* Threads may have moved in memory: the pointer is good only until another is added. */
    if (!*last || (*last)->tid != tid)
        *last = thread_of(truth, (int32_t)tid);
    if (!*last)
        return no_memory;
    struct truth_thread *thread = *last;
    if (interrupt && append(&thread->optional, &thread->optional_n, &thread->optional_room, thread->n) < 0)
        return no_memory;
    return append(&thread->ips, &thread->n, &thread->room, ip) < 0 ? no_memory : NULL;
}

int truth_read(struct truth *truth, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        complain("check: %s: %s", path, strerror(errno));
        return EXIT_ENVIRONMENT;
    }
    char line[128];
    const char *wrong = NULL;
    struct truth_thread *last = NULL;
    unsigned long number = 0;
    while (!wrong && fgets(line, sizeof line, file)) {
        number++;
        wrong = read_line(truth, &last, line);
    }
    int error = ferror(file) ? errno : 0;
    fclose(file);
    if (!wrong && !error)
        return EXIT_DONE;
    if (error)
        complain("check: %s: %s", path, strerror(error));
    else
        complain("check: %s:%lu: %s", path, number, wrong);
    truth_free(truth);
    return error ? EXIT_ENVIRONMENT : EXIT_DATA;
}

struct truth_thread *truth_take(struct truth *truth, int32_t tid)
{
    static struct truth_thread none;
    for (size_t i = 0; i < truth->n; i++)
        if (truth->threads[i].tid == tid) {
            truth->threads[i].taken = true;
            return &truth->threads[i];
        }
    return &none;
}

void truth_free(struct truth *truth)
{
    for (size_t i = 0; i < truth->n; i++) {
        free(truth->threads[i].ips);
        free(truth->threads[i].optional);
    }
    free(truth->threads);
    *truth = (struct truth){0};
}

/* SPDX-License-Identifier: MIT
 * Any text -> cofi sim: no crash, no leak, bounded time. asm sections are refused: no other program is run.
 * What it complains of goes nowhere, by a stream of its own: libFuzzer counts on stderr. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "../cli/sim.h"
#include "fuzz.h"

void complain(const char *format, ...) { (void)format; }

int sim_assemble(struct scenario *scenario, unsigned line, uint64_t address, unsigned mode, const char *text)
{
    (void)scenario, (void)line, (void)address, (void)mode, (void)text;
    return EXIT_DATA;
}

static void run(struct sim_file *file)
{
    struct scenario scenario;
    struct sim sim = {0};
    if (sim_parse(&scenario, file, false) == 0) {
        sim.steps = 990000; /* of a million that are allowed */
        sim_run(&sim, &scenario);
        sim_close(&sim);
    }
    sim_free(&scenario);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *nowhere;
    struct sim_file file;
    char *text = malloc(n + 1);
    if (!nowhere && (nowhere = fopen("/dev/null", "w")))
        stderr = nowhere; /* libFuzzer has kept its own */
    memcpy(text, data, n);
    text[n] = 0;
    sim_file_begin(&file, "scenario", text);
    for (int i = 0; i < 20 && sim_file_next(&file); i++)
        run(&file);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: MIT
 * pt-stream SEED DIR [ERRATA]: a random program's trace as DIR/raw, its code as DIR/code0..3. On standard output what
 * cofi's options must say of them: "--image=... --ctl=... --range=...", and which streams they are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pt_bench.h"

static struct bench bench;

static void write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) {
        perror(path);
        exit(3);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    uint64_t errata = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
    bench_run(&bench, strtoull(argv[1], NULL, 0), 4000, (struct bench_wish){.wide = true, .errata = errata});
    write_file(argv[2], "raw", bench.rig.bytes, bench.rig.size);
    for (unsigned i = 0; i < PROGRAM_REGIONS; i++) {
        const struct program_region *region = &bench.program.regions[i];
        char name[8];
        snprintf(name, sizeof name, "code%u", i);
        write_file(argv[2], name, region->bytes, region->used);
        printf("--image=%s/%s@%#" PRIx64 " ", argv[2], name, region->base);
    }
    printf("\n--ctl=%#" PRIx64, bench.ctl);
    for (unsigned i = 0; i < bench.range_count; i++)
        printf(" --range=%" PRIx64 "-%" PRIx64 "%s", bench.ranges[i].base, bench.ranges[i].limit,
               bench.ranges[i].stop ? ",stop" : "");
    printf("\n%zu instructions on %s%s\n", bench.ran, bench.model, bench.may_lose ? ", finite buffer" : "");
    rig_close(&bench.rig);
    return 0;
}

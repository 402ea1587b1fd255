/* SPDX-License-Identifier: MIT
 * Assembler text -> bytes, through as(1) and objcopy(1) where they are. */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "sim.h"

extern char **environ;

/* Run a program of the PATH; its exit status, or -1 when it is not there. */
static int run(char *const argv[])
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status);
}

static int read_bytes(const char *path, uint8_t **bytes, size_t *n)
{
    FILE *in = fopen(path, "rb");
    uint8_t *p = malloc(1 << 20);
    if (!in || !p) {
        free(p);
        if (in)
            fclose(in);
        return EXIT_ENVIRONMENT;
    }
    *n = fread(p, 1, 1 << 20, in);
    fclose(in);
    *bytes = p;
    return 0;
}

struct workplace {
    char dir[256], source[300], object[300], binary[300];
};

static int enter(struct workplace *w)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(w->dir, sizeof w->dir, "%s/cofi-sim-" "XX" "XX" "XX", tmp && strlen(tmp) < 200 ? tmp : P_tmpdir);
    if (!mkdtemp(w->dir))
        return EXIT_ENVIRONMENT;
    snprintf(w->source, sizeof w->source, "%s/code.s", w->dir);
    snprintf(w->object, sizeof w->object, "%s/code.o", w->dir);
    snprintf(w->binary, sizeof w->binary, "%s/code.bin", w->dir);
    return 0;
}

static void leave(const struct workplace *w)
{
    unlink(w->source);
    unlink(w->object);
    unlink(w->binary);
    rmdir(w->dir);
}

static int write_source(const struct workplace *w, unsigned mode, const char *text)
{
    FILE *out = fopen(w->source, "w");
    if (!out)
        return EXIT_ENVIRONMENT;
    fprintf(out, ".intel_syntax noprefix\n.code%u\n%s", mode, text);
    return fclose(out) == 0 ? 0 : EXIT_ENVIRONMENT;
}

static int translate(struct scenario *scenario, unsigned line, struct workplace *w, unsigned mode)
{
    char *bits = mode == 64 ? "--64" : "--32";
    char *as[] = {"as", bits, "-o", w->object, w->source, NULL};
    char *objcopy[] = {"objcopy", "-O", "binary", "-j", ".text", w->object, w->binary, NULL};
    int status = run(as);
    if (status == 0)
        status = run(objcopy);
    if (status < 0) {
        sim_fail(scenario, line, "as and objcopy (binutils) are needed for asm; or give code as bytes");
        return EXIT_ENVIRONMENT;
    }
    return status == 0 ? 0 : sim_fail(scenario, line, "the assembler refused this text");
}

int sim_assemble(struct scenario *scenario, unsigned line, uint64_t address, unsigned mode, const char *text)
{
    struct workplace w;
    uint8_t *bytes = NULL;
    size_t n = 0;
    int status = enter(&w);
    if (status) {
        sim_fail(scenario, line, "no temporary directory can be made");
        return status;
    }
    status = write_source(&w, mode, text);
    if (status == 0)
        status = translate(scenario, line, &w, mode);
    if (status == 0)
        status = read_bytes(w.binary, &bytes, &n);
    leave(&w);
    if (status == 0 && n == 0)
        status = sim_fail(scenario, line, "the text assembles to no bytes");
    if (status) {
        free(bytes);
        return status;
    }
    return sim_add_code(scenario, address, bytes, n);
}

/* SPDX-License-Identifier: MIT
 * Without libFuzzer: run a target over the files and folders named on the command line, one TAP
 * line a file. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int count;

static void run_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    uint8_t *bytes = 0;
    size_t n = 0, room = 0;
    if (!in) {
        printf("not ok %d - %s\n", ++count, path);
        return;
    }
    for (;;) {
        if (n == room)
            bytes = realloc(bytes, room = room ? 2 * room : 4096);
        size_t got = fread(bytes + n, 1, room - n, in);
        if (!got)
            break;
        n += got;
    }
    fclose(in);
    /* Exactly as long as the input, for the sanitizers. */
    uint8_t *exact = malloc(n + !n);
    memcpy(exact, bytes, n);
    free(bytes);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    const char *slash = strrchr(path, '/');
    printf("ok %d - %s\n", ++count, slash ? slash + 1 : path);
    fflush(stdout);
}

static void run(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        run_file(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (*e->d_name != '.')
            run_file(file);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    printf("1..%d\n", count);
    return 0;
}

/* SPDX-License-Identifier: MIT
 * The fast host alone, for tests and measurements: fast-record [-o FILE] [-s BYTES] [-p PSB-BYTES] [-n] [-c CACHE-BYTES] [-r COLD-RUNS] [-m] [-k FOLDER] COMMAND… */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cofi/fast.h>

int main(int argc, char **argv)
{
    struct cofi_fast_options o = {.size = sizeof o};
    struct cofi_fast_result r;
    struct cofi_error e = {0};
    bool verbose = false;
    for (int c; (c = getopt(argc, argv, "+o:s:p:nvmc:r:k:")) != -1;)
        switch (c) {
        case 'o': o.path = optarg; break;
        case 's': o.snapshot_bytes = strtoull(optarg, NULL, 0); break;
        case 'p': o.psb_bytes = strtoull(optarg, NULL, 0); break;
        case 'n': o.no_trace = true; break;
        case 'c': o.cache_bytes = strtoull(optarg, NULL, 0); break;
        case 'r': o.cold_runs = (uint32_t)strtoul(optarg, NULL, 0); break;
        case 'm': o.claims = true; break;
        case 'k': o.kept_code = optarg; break;
        case 'v': verbose = true; break;
        default: return 2;
        }
    o.argv = argv + optind;
    if (optind == argc)
        return 2;
    int status = cofi_fast_record(&o, &r, &e);
    if (status < 0)
        fprintf(stderr, "fast-record: %s: %s\n", cofi_error_text(status), e.text);
    if (verbose)
        fprintf(stderr, "fast-record: %u tasks, %u processes, %u foreign, %llu log bytes, %llu bytes, %llu branches, %u adopted, %u flushes\n", r.tasks,
                r.processes, r.foreign, (unsigned long long)r.log_bytes, (unsigned long long)r.bytes,
                (unsigned long long)r.branches, r.adopted, r.flushes);
    if (status < 0)
        return 125;
    return WIFEXITED(r.wait_status) ? WEXITSTATUS(r.wait_status) : 128 + WTERMSIG(r.wait_status);
}

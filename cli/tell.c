/* SPDX-License-Identifier: MIT
 * What the fast host notices while it records -> lines on standard error. See cofi/fast.h. */
#include "tell.h"

#include <stdio.h>
#include <unistd.h>

void tell_left(void *opaque, unsigned threads)
{
    (void)opaque;
    fprintf(
        stderr,
        "cofi record: the command has ended, but not what it started: %u thread%s %s on being recorded; an interrupt "
        "(Ctrl-C) or SIGTERM to cofi (process %d) ends the recording, not them\n",
        threads, threads == 1 ? "" : "s", threads == 1 ? "goes" : "go", (int)getpid());
}

/* No error: strace, say, is well served. */
void tell_traced(void *opaque, int32_t pid, int32_t tracer, const char *name)
{
    (void)opaque;
    fprintf(
        stderr,
        "cofi record: %s (process %d) traces process %d, which runs translated: it sees translated code, and its breakpoints are not "
        "come to. To debug the program: detach, end the recording (kill -USR1 %d), attach again\n",
        name, (int)tracer, (int)pid, (int)getpid());
}

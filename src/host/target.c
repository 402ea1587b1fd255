/* SPDX-License-Identifier: MIT
 * What a host is asked to record -> whether there is any such thing. */
#include "host/target.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

bool cofi__open_pipes(int first[2], int second[2])
{
    if (pipe2(first, O_CLOEXEC))
        return false;
    if (!pipe2(second, O_CLOEXEC))
        return true;
    int error = errno;
    close(first[0]);
    close(first[1]);
    errno = error;
    return false;
}

int cofi__target_check(char *const *argv, int32_t pid, struct cofi_error *error)
{
    if (argv && !argv[0])
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "argv has no command: its first string is null");
    if (!argv && !pid)
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "nothing to record: argv is null and pid 0");
    if (access("/proc/self/maps", R_OK)) /* a program could neither be followed nor given back */
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE,
                          "/proc is not mounted here, where the kernel tells what a process has mapped");
    return 0;
}

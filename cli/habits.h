/* SPDX-License-Identifier: MIT
 * What people who know other tools type here. */
#ifndef COFI_CLI_HABITS_H
#define COFI_CLI_HABITS_H

/* Behind getopt's complaint: if the option is one of perf's, what does that here; then where the options
 * are told. Returns EXIT_USAGE. To be called before getopt goes on. */
int bad_option(const char *command, char **argv);

#endif

/* SPDX-License-Identifier: MIT
 * Room on the stack, whatever its limit is. */
#ifndef COFI_CLI_STACK_H
#define COFI_CLI_STACK_H

/* Call run, on a stack of our own where the limit (ulimit -s) leaves too little; threads get enough,
 * too. The limit stays: what is started inherits it. Returns run's result. */
int stack_run(int (*run)(int argc, char **argv), int argc, char **argv);

#endif

/* SPDX-License-Identifier: MIT
 * A raw stream's code, as --image gives it. */
#ifndef COFI_CLI_RAW_IMAGE_H
#define COFI_CLI_RAW_IMAGE_H

#include <stdbool.h>

#include <cofi/image.h>

/* "FILE@ADDR": an ELF or PE file that was loaded there, or raw code; "X.addr": a page dump; else an ELF
 * file. *elf is set where it is one, whose class tells the mode of its code. 0 or more, or an error, of
 * which error has the text where it was not said. */
int raw_image_add(struct cofi_image *image, const char *spec, const char *command, bool *elf, struct cofi_error *error);

#endif

/* SPDX-License-Identifier: MIT
 * Symbols' names as their sources have them. */
#ifndef COFI_DEMANGLE_H
#define COFI_DEMANGLE_H

#ifdef __cplusplus
extern "C" {
#endif

/* How the names of C++ and Rust functions are shown. */
enum cofi_demangle {
    COFI_DEMANGLE_NO,     /* as symbol tables have them */
    COFI_DEMANGLE_SIMPLE, /* as sources have them: "ns::list<int>::push" */
    COFI_DEMANGLE_FULL    /* with parameters and return type, as far as they are told */
};

/* Bytes that a name has when it is shown, with its end; of more is cut. */
enum { COFI_NAME_BYTES = 4096 };

/* Names made readable, each once. Thread safe. */
struct cofi_demangler;

/* Errors: COFI_ERR_NOMEM. Inverse: cofi_demangler_close, which may be given null. */
int cofi_demangler_open(struct cofi_demangler **demangler, enum cofi_demangle how);
void cofi_demangler_close(struct cofi_demangler *demangler);
/* A name of C++'s [Itanium C++ ABI, 5.1] ("_Z…") or Rust's [Rust RFC 2603] ("_R…", or like
 * C++'s) made readable, with what linkers put behind it ("@plt", ".cold"). Valid while the
 * demangler is open. Else, and where memory is out, name itself, which may be null, as the
 * demangler may be. Bounded time: a name of COFI_NAME_BYTES or more, or which would be
 * written with as many, stays as it is; behind 64 that would be, all further ones do. So does
 * one that needed more stack than 512 KiB; usual ones need 32. */
const char *cofi_demangle(struct cofi_demangler *demangler, const char *name);

#ifdef __cplusplus
}
#endif
#endif

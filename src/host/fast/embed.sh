#!/bin/sh
# embed.sh OBJCOPY ELF BIN ASM: the runtime's image as bytes, and the assembly that holds them.
set -eu
"$1" -O binary "$2" "$3"
path=$(realpath "$3")
cat >"$4" <<END
        .section .rodata
        .globl cofi__fast_blob, cofi__fast_blob_end
        .hidden cofi__fast_blob, cofi__fast_blob_end
        .balign 16
cofi__fast_blob:
        .incbin "$path"
cofi__fast_blob_end:
        .section .note.GNU-stack, "", @progbits
END

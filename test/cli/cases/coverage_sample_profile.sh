# What clang -fprofile-sample-use reads, of a program whose debug information is written by hand, as clang has it: twice() was inlined into _start on
# its line 3 (path 1, so 2), the loop in it unrolled four times (path 2, so 4 and 4 << 8), back() is a loop to its own first instruction, and begins
# with another twice().
cat >program.s <<'TEXT'
	.file 1 "program.c"
	.type leave, @function
leave:	mov $60, %eax
	xor %edi, %edi
	syscall
	.size leave, . - leave
	.globl _start
	.type _start, @function
_start:	.loc 1 10
	mov $3, %ebx
again:	.loc 1 12
	call even
	.loc 1 12 0 discriminator 2
	lea back(%rip), %rax
	call *%rax
twice:	.loc 1 2 0
	inc %ecx
	.loc 1 3 0 discriminator 1028
	inc %ecx
	test $1, %bl
	jz twice_end
	inc %ecx
twice_end:
	.loc 1 14
	dec %ebx
	jnz again
	cmp $77, %ebx
	jne leave
	.loc 1 15
	nop
_start_end:
	.size _start, . - _start
	.type even.llvm.123, @function
even.llvm.123:
even:	.loc 1 21
	test $1, %bl
	jnz 1f
	.loc 1 22
	inc %ecx
1:	.loc 1 23
	ret
even_end:
	.size even.llvm.123, . - even.llvm.123
	.type back, @function
back:	.loc 1 2
	inc %ecx
back_twice_end:
	.loc 1 31
	test $3, %cl
	jnz back
	.loc 1 32
	ret
back_end:
	.size back, . - back
	.type idle, @function
idle:	.loc 1 41
	ret
idle_end:
	.size idle, . - idle
	.section .debug_abbrev, "", @progbits
	.uleb128 1, 0x11, 1, 0x25, 8, 0x03, 8, 0x10, 0x17, 0x11, 1, 0x12, 1, 0, 0		# unit: producer, name, lines, code
	.uleb128 2, 0x2e, 0, 0x03, 8, 0x3b, 0x0b, 0x20, 0x0b, 0, 0				# inlined everywhere: name, line
	.uleb128 3, 0x2e, 1, 0x03, 8, 0x3b, 0x0b, 0x11, 1, 0x12, 1, 0, 0			# function with others inside
	.uleb128 4, 0x2e, 0, 0x03, 8, 0x3b, 0x0b, 0x11, 1, 0x12, 1, 0, 0			# function
	.uleb128 5, 0x1d, 0, 0x31, 0x13, 0x11, 1, 0x12, 1, 0x59, 0x0b, 0x2136, 0x0b, 0, 0	# inlined: which, code, call
	.uleb128 0
	.section .debug_info, "", @progbits
unit:	.long unit_end - 1f
1:	.value 4
	.long .debug_abbrev
	.byte 8
	.uleb128 1
	.asciz "clang version 14"
	.asciz "program.c"
	.long .debug_line
	.quad leave, idle_end
inlined: .uleb128 2
	.asciz "twice"
	.byte 1, 1
	.uleb128 3
	.asciz "_start"
	.byte 9
	.quad _start, _start_end
	.uleb128 5
	.long inlined - unit
	.quad twice, twice_end
	.byte 12, 2
	.uleb128 0
	.uleb128 4
	.asciz "even"
	.byte 20
	.quad even, even_end
	.uleb128 3
	.asciz "back"
	.byte 30
	.quad back, back_end
	.uleb128 5
	.long inlined - unit
	.quad back, back_twice_end
	.byte 31, 0
	.uleb128 0
	.uleb128 4
	.asciz "idle"
	.byte 40
	.quad idle, idle_end
	.uleb128 0
unit_end:
	.section .debug_line, "", @progbits
	.section .note.GNU-stack, "", @progbits
TEXT
gcc -static -nostdlib -no-pie -Wl,--build-id -o program program.s
"$COFI" record -q --host=step -o p.data -- ./program || echo "status $?"
"$COFI" coverage --format=afdo p.data 2>log
sed 's,in /.*/program$,in PATH/program,' log
echo "-- twice, but one function"
"$COFI" coverage --format=afdo --function='even*' p.data p.data
echo "-- what it is not of"
strip program
HOME=$PWD "$COFI" record -q --host=step -o s.data -- ./program
"$COFI" coverage --format=afdo -o s.afdo s.data 2>&1 | sed "s,in /.*/program:,in PATH/program:,"
[ -s s.afdo ] || echo "nothing written"
"$COFI" coverage --format=afdo --no-source p.data
"$COFI" coverage --format=afdo --source=program.c p.data

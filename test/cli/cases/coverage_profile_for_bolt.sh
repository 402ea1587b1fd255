# What BOLT's perf2bolt -pa reads: branches that were taken, what was gone through between them, and what came from elsewhere.
cat >program.s <<'TEXT'
	.globl _start
	.type leave, @function
leave:	mov $60, %eax
	xor %edi, %edi
	syscall
	.size leave, . - leave
	.type _start, @function
_start:	mov $3, %ebx
again:	call twice
	dec %ebx
	jnz again
	lea twice(%rip), %rax
	call *%rax
	jmp leave
	.size _start, . - _start
	.type twice, @function
twice:	test $1, %bl
	jz even
	inc %ecx
even:	inc %ecx
	ret
	.size twice, . - twice
	.section .note.GNU-stack, "", @progbits
TEXT
gcc -static -nostdlib -no-pie -Wl,--build-id -o program program.s
"$COFI" record -q --host=step -o p.data -- ./program || echo "status $?"
nm program | sort | sed -n 's/^0*\([0-9a-f]*\) [tT] \(.*\)/\1 \2/p' >names
named() { awk 'NR == FNR { name[$1] = $2; next } { for (i = 2; i < 4; i++) $i = $i in name ? name[$i] : $i == "0" ? "elsewhere" : "inside" } 1' names -; }
"$COFI" coverage --format=bolt p.data | named
echo "-- one function"
"$COFI" coverage --format=bolt --function=twice p.data | named
echo "-- more than one file, none, and what says nothing"
"$COFI" record -q -o t.data -- true
"$COFI" coverage --format=bolt -o t.pa t.data 2>&1 | sed '/\[vdso\]/d; s,  */.*/,  PATH/,' # where glibc begins with getrandom (2.41)
[ -s t.pa ] || echo "nothing written"
"$COFI" coverage --format=bolt --module=nothing p.data
"$COFI" coverage --format=bolt --by=target p.data

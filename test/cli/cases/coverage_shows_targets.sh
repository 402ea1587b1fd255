# Where indirect branches led: a switch, pointers to functions, another module's; all of a module, one function's, one source's; as JSON.
cat >main.c <<'TEXT'
#include <stdlib.h>
int add(int a, int b) { return a + b; }
int sub(int a, int b) { return a - b; }
static int (*const volatile ops[])(int, int) = {add, add, sub};
int choose(int n) { return ops[n % 3](n, 1); }
int by_number(int n);
int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
    int list[] = {2, 1}, sum = 0;
    for (int i = 0; i < 12; i++)
        sum += choose(i) + by_number(i % 5);
    for (int i = 0; i < 3; i++)
        qsort(list, 2, sizeof *list, order);
    return sum == 0;
}
TEXT
# A switch, as compilers make one of many ways.
cat >switch.s <<'TEXT'
	.globl by_number
	.type by_number, @function
by_number:
	lea ways(%rip), %rax
	movslq (%rax,%rdi,4), %rdx
	add %rdx, %rax
	jmp *%rax
zero:	xor %eax, %eax
	ret
some:	mov %edi, %eax
	ret
	.size by_number, . - by_number
	.section .rodata
ways:	.long zero - ways, some - ways, some - ways, zero - ways, some - ways
	.section .note.GNU-stack, "", @progbits
TEXT
gcc -g -O0 -fcf-protection=none -no-pie -o program main.c switch.s
"$COFI" record -q -o p.data -- ./program || echo "status $?"
here=$(realpath .)
tell() { sed "s,$here/,HERE/,g; s/\"\(to_\)\{0,1\}address\":\"0x[0-9a-f]*\"/\"\1address\":\"PLACE\"/g; s/  *[0-9a-f][0-9a-f]*  \([-a-z]\)/ PLACE \1/; s/+0x[0-9a-f]*/+/"; }
echo "-- all of a function's"
"$COFI" coverage --by=target --function=choose p.data | tell
"$COFI" coverage --by=target --function=by_number p.data | tell
"$COFI" coverage --by=target --function=by_number --json p.data | tell
echo "-- of a source"
"$COFI" coverage --by=target --source=main.c p.data | tell
echo "-- of a module, into another one"
"$COFI" coverage --by=target --module=program p.data | tell | grep -E -A2 "qsort@plt.*target"
echo "-- by whom a function was called"
"$COFI" coverage --by=target --json p.data | grep '"to_function":"order"' | sed 's/.*"module":"[^"]*\/\([a-z]*\)[^"/]*".*"kind":"\([a-z]*\)","count":\([0-9]*\).*/\1 \2 \3/'
echo "-- a part of the time, and several recordings"
"$COFI" coverage --by=target --function=choose --no-source p.data p.data | tell
"$COFI" coverage --by=target --function=choose --to=@0 p.data || echo "status $?"
echo "-- what has none, and what says nothing"
"$COFI" coverage --by=target --function=add p.data || echo "status $?"
"$COFI" coverage --by=branch --function=add p.data || echo "status $?"
"$COFI" coverage --by=target --all p.data

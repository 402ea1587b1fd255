# Conditional branches of lines that ran and of one that did not, in text, as JSON, and as lcov has them.
cat >main.c <<'TEXT'
static int both(int a, int b)
{
    if (a > 3 && b < 7)
        return 1;
    while (a < b)
        a++;
    return a;
}
int never(int n)
{
    return n ? 1 : 2;
}
int main(int argc, char **argv)
{
    int sum = 0;
    for (int i = 0; i < 10; i++)
        sum += both(i, 20 - i);
    return argc > 1 ? never(sum) : 0;
}
TEXT
gcc -g -O0 -o program main.c
"$COFI" record -q -o p.data -- ./program || echo "status $?"
here=$(realpath .)
tell() { sed "s,$here/,HERE/,g; s/\"address\":\"0x[0-9a-f]*\",\"length\":[0-9]*/PLACE/; s/\"offset\":[0-9]*/OFFSET/; s/ [0-9a-f]*  \([a-z]*\)+0x[0-9a-f]*/ PLACE \1/"; }
"$COFI" coverage --by=branch --source=main.c p.data | tell
echo "-- with those that did not run"
"$COFI" coverage --by=branch --source=main.c --all --json p.data | tell
echo "-- one function"
"$COFI" coverage --by=branch --function=both --module=program p.data | tell
"$COFI" coverage --function='[bnm]*' --source=main.c --module=program --sort=name --all p.data | awk '/main.c/ { print $4, $5, $6 }'
"$COFI" coverage --function=both --format=lcov p.data | grep ^BR
echo "-- twice"
"$COFI" coverage --format=lcov --source=main.c p.data p.data | grep ^BR
echo "-- without lines, only those that ran"
"$COFI" coverage --by=branch --function=never --all --no-source p.data
"$COFI" coverage --by=branch --function=both --all --no-source p.data | tell

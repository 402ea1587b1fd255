. "$CASES/raw.inc"
say() {
    "$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 "$@" >out 2>err
    echo "$* -> $?$([ -s out ] && echo ', shown')"
    cat err
}
say --format=gcov
say --by=thread
say --sort=size
say --output=
say --format=lcov --json
say --format=drcov --by=module
say --format=afl --all
say --format=lcov --sort=name
say --by=module --sort=name
say --by=line --no-source
say --format=lcov --no-source
say --format=drcov --no-source
say --by=insn --source=x.c
say --no-source --source=x.c
say --format=drcov --source=x.c
say --format=afl --function=main
say --format=afl --module=nothing
say --format=drcov --function=nothing
say --module=nothing
say --format=html --json
say --format=html --by=line
say --format=html --all
say --format=html --no-source --source=x.c
say --threads=0
say --tid=1
say more.data
"$COFI" coverage --nosuch
echo "status $?"

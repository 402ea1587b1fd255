# A library without its path is sought where the program was linked to look for it, too.
mkdir -p there/lib
echo 'int once(int n) { return n + 1; }' >lib.c
echo 'int once(int); int main(void) { int n = 0; while (n < 5) n = once(n); return 0; }' >main.c
cc -shared -fPIC -o there/lib/libcore.so lib.c
for tag in enable disable; do
    # shellcheck disable=SC2016
    cc -o there/main main.c there/lib/libcore.so -Wl,--$tag-new-dtags '-Wl,-rpath,/nonexistent:$ORIGIN/lib'
    "$COFI" record -q --filter='filter once @ libcore.so' -- there/main
    "$COFI" coverage --all | awk '$NF == "once" { print $2, $NF }'
done
"$COFI" record -q --filter='filter once @ libcare.so' -- there/main 2>&1 || echo "status $?"

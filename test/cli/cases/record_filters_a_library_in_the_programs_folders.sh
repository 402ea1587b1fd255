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
# … and where its libraries were.
mkdir -p there/deep
cc -shared -fPIC -o there/deep/libdeep.so lib.c -Wl,-soname,libdeep.so
echo 'int once(int); int more(int n) { return once(n); }' >mid.c
# shellcheck disable=SC2016
cc -shared -fPIC -o there/lib/libmid.so mid.c there/deep/libdeep.so '-Wl,-rpath,${ORIGIN}/../deep' -Wl,-soname,libmid.so
echo 'int more(int); int main(void) { int n = 0; while (n < 5) n = more(n); return 0; }' >main.c
# shellcheck disable=SC2016
cc -o there/main main.c there/lib/libmid.so -Wl,-rpath-link,there/deep '-Wl,-rpath,$ORIGIN/lib'
"$COFI" record -q --filter='filter once @ libdeep.so' -- there/main
"$COFI" coverage --all | awk '$NF == "once" { print $2, $NF }'
"$COFI" record -q --filter='filter once @ libcare.so' -- there/main 2>&1 || echo "status $?"

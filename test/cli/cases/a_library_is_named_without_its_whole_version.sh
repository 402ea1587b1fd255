# As programs are linked with it, and as --filter has it: the file's name is longer.
echo 'int parse(int n) { return n * n; }' >lib.c
echo 'int parse(int); int main(void) { return parse(7) != 49; }' >main.c
cc -g -shared -fPIC -Wl,-soname,libparse.so.1 -o libparse.so.1.2.3 lib.c && ln -s libparse.so.1.2.3 libparse.so.1
cc -o main main.c libparse.so.1.2.3 -Wl,-rpath,. && "$COFI" record -q -o a.data -- ./main && "$COFI" record -q -o b.data -- ./main
for module in libparse.so.1.2.3 libparse.so.1 libparse.so '*/libparse.so.1' libparse lib.so.1 'libparse.so.[1'; do
    "$COFI" coverage --json --module="$module" --function=parse a.data | sed -n 's/.*"executed":\([0-9]*\),.*/ran/p'
    "$COFI" diff -q --module="$module" --function=parse a.data b.data; echo "$module: $?"
done

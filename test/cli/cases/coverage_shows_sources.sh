# Sources with counts beside them: all of a file, what is around a function, without the file, and what is no file.
cat >main.c <<'TEXT'
#include <stdlib.h>
/* One,
 * two,
 * three,
 * four
 * lines that say nothing. */
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
    if (argc == 1 || argc == 7 || argc == 9)
        return 0;
    return never(sum);
}
TEXT
printf '/* no line behind this one */' >>main.c
gcc -g -O0 -o program main.c
"$COFI" record -q -o p.data -- ./program || echo "status $?"
here=$(realpath .)
show() { "$COFI" coverage --by=source --module=program "$@" p.data 2>&1 | sed "s,$here/,HERE/,g; s/ *$//"; }
show
echo "-- what is around a function"
show --function='[bm]*'
echo "-- elsewhere"
"$COFI" archive -o copy p.data 2>/dev/null && mkdir -p "copy$here"
mv main.c "copy$here/main.c"
show --symfs=copy --function=never --all
show --function=never
echo "-- it is newer"
touch -d '+1 day' "copy$here/main.c"
show --symfs=copy --function=both | grep newer
echo "-- not there, or no file"
show --function=both
mkfifo main.c
show --function=both | head -1
rm main.c && mkdir main.c
show --function=both | head -1
echo "-- shorter than it was"
rmdir main.c && head -8 "copy$here/main.c" >main.c && printf 'a\0b' >>main.c && touch -d '-1 day' main.c
show --function=both
echo "-- refused"
"$COFI" coverage --by=source --json p.data
echo "status $?"
"$COFI" coverage --by=source --no-source p.data
echo "status $?"

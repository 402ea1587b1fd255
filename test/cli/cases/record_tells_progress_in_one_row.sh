# However narrow the terminal is, and becomes: what is missed least goes first, and what a narrower one has wrapped is taken away, too.
rows() {
    TERM=xterm script -qec "$1" /dev/null </dev/null | tr '\r\033' '\nE' | sed -n 's/^\(E\[[JK]\)\(.*[0-9] [M].*\)/\1 \2/p' |
        sed 's/[0-9.]* MB/N MB/g; s/[0-9]* thread.*/T/' | grep -v branch | uniq
}
for columns in 80 42 41 30 18 8 7; do
    echo "$columns:"
    rows "stty cols $columns; '$COFI' record --progress -- sleep 0.8"
done
echo 'from 60 to 20:'
rows "stty cols 60; '$COFI' record --progress -- sh -c 'sleep 0.8; stty cols 20; sleep 1.2'"

# Other decoders' instruction lists of a PT recording, and the truth's, in one form: "TID ADDRESS" lines, threads one
# after the other, each in its own order. Software interrupts (the truth's third word "int") are left out everywhere:
# PT tells their address, not that they ran. $judge_ipt is the program judge-ipt.

# in_order_of_making RECORDING: threads' numbers, one a line -> each once, in the order in which the recording says that they were made;
# what it does not know comes last, so that none is lost. $thread_order is the program thread-order.
in_order_of_making() {
    awk -v order="$("$thread_order" "$1")" '{ is[$1] }
        END {
            n = split(order, by)
            for (i = 1; i <= n; i++) if (by[i] in is) { print by[i]; delete is[by[i]] }
            for (id in is) print id
        }'
}

# truth_list TRUTH: on standard output
truth_list() { without_interrupts "$1" "$1"; }

# without_interrupts TRUTH LIST
without_interrupts() {
    awk 'FNR == 1 { pass++ } pass == 1 { if ($3 == "int") drop[$1 " " $2] = 1; next }
         !(($1 " " $2) in drop) { print $1, $2 }' "$1" "$2" | sort -s -n -k1,1
}

# ipt_list RECORDING TRUTH ERRORS: the list; status 0: no error
ipt_list() {
    "$judge_ipt" "$1" >"$3.list" 2>"$3"
    ipt_status=$?
    without_interrupts "$2" "$3.list"
    return $ipt_status
}

# perf_list RECORDING TRUTH ERRORS: the list; status 0: no error
perf_list() {
    perf script -i "$1" --itrace=i0nse -F tid,ip >"$3.out" 2>"$3.err"
    grep -hE 'instruction trace error|[Ff]ailed|invalid' "$3.out" "$3.err" >"$3"
    awk '/^ *[0-9]+ +[0-9a-f]+ *$/ { ip = $2; while (length(ip) < 16) ip = "0" ip; print $1, ip }' "$3.out" >"$3.list"
    without_interrupts "$2" "$3.list"
    ! [ -s "$3" ]
}

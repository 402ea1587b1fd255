# Other decoders' instruction lists of a PT recording, and the truth's, in one form: "TID ADDRESS" lines, threads one
# after the other, each in its own order. Software interrupts (the truth's third word "int") are left out everywhere:
# PT tells their address, not that they ran. $judge_ipt is the program judge-ipt.

# Process and thread ids, one a line -> each once, in the order in which the kernel gave them: those of one run lie
# together, but the kernel begins anew behind the largest.
in_order_of_making() {
    sort -nu | awk -v largest="$(cat /proc/sys/kernel/pid_max)" '{ id[NR] = $1 }
        END {
            for (i = 1; i <= NR; i++) if (id[NR] - id[i] < largest / 2) print id[i]
            for (i = 1; i <= NR; i++) if (id[NR] - id[i] >= largest / 2) print id[i]
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

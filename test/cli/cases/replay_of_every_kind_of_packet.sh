# Streams of the bytes of PTREF 12 and 6.4-6.8, made as a processor may make them: each comes out of the unit again.
# MODE.Exec where it need not be, PSB+ with FUP before TIP.PGE [ERR BDM70], a stream that begins in the middle, gaps.
psb=02820282028202820282028202820282
on=${psb}0223990171001040000000
bytes() { perl -e 'print pack "H*", join "", map { s/ //gr } @ARGV' "$1" >"$2"; }
# replay NAME CODE TRACE OPTIONS...
replay() {
    name=$1
    bytes "$2" code
    bytes "$3" raw
    shift 3
    echo "$name: $($COFI replay --raw=raw --image=code@0x401000 "$@" 2>&1)"
}
replay "a branch to its own next address" "7500 7500 7500 0f05" "$on 16 01"
replay "transactions" "90909090909090909090 0f05" "$on 9921 3d0210 9920 3d0410 9921 3d0610 9922 3d0810 2d0010 01"
replay "sleep" "9090 0f05" "$on 02c26000000001000000 02220060 02e2 3d0110 02a26601000000 01" --ctl=0x2018
replay "MWAIT to C1, HLT" "9090 0f05" "$on 02c20000000000000000 02220000 02e2 3d0110 02031800 02a20001000000 02220000 02e2 3d0210 02031800 02a20101000000 01" --ctl=0x2018
replay "event trace" "9090 0f34" "$on 025300 00f0ad0b00000000 0213010e 3d0110 2d0010 02130f00 01" --ctl=0x80002008
replay "an interrupt with a new CR3" "9090 0f05" "$on 3d0110 024300002468ac00 9901 2d0010 01" --ctl=0x200c
replay "MOV CR3" "90 0f22d8 7500 0f05" "$on 0243004068ac0000 06 01" --ctl=0x2004
replay "filters that are not known" "7503 751e 90 eb1b 90 ffe0" "$on 04 01 310510 212210 310810 213010"
replay "filters" "7503 751e 90 eb1b 90 ffe0" "$on 04 01 310510 212210 310810 213010" --range=401000-40101f
replay "a TraceStop range" "ffe0" "$on 212210 0283" --range=401022-401022,stop
replay "an overflow" "7500 7500 7500 0f05" "$on 06 02f3 7d041040000000 04 01"
replay "an overflow while off" "7500 7500 7500 0f05" "$on 06 02f3 5955 9901 71041040000000 04 01"
replay "what is no packet" "7500 0f05" "00 $on 06 05 0606 $psb 0223 9901 71001040000000 06 01"
replay "code that is not there" "ffe0 0f05" "$on 2d0050 06 2d0210 01"
replay "no code where tracing begins" "7500 0f05" "${psb}0223990171005040000000 06 01 $on 06 01"
replay "no code up to a PSB and behind it" "ffe0 0f05" "$on 2d0050 06 $psb 9901 7d005040000000 0223 06 2d0210 01"
replay "a PEBS record" "90 90 0f05" "$on 026304 041122334455667788 0c1122334455667788 02b3 3d0110 01"
replay "triggers" "90 90 0f05" "$on d940010300 d9c0010000 3d0110 01"
replay "32-bit code" "40 7500 40 0f34" "$psb 0223 9902 71001040000000 04 01"
replay "a far jump to it" "ff28 40 7500 0f34" "$on 9902 2d0210 04 01"
replay "PTWRITE" "90 f30faee0 90 f3480faee0 0f05" "$on 021278563412 0232efcdab8967452301 01" --ctl=0x3008
replay "a stream from its middle" "7500 7500 0f05" "04 $psb 9901 7d001040000000 0223 0c 01"
replay "an early FUP" "7500 7500 0f05" "$psb 9901 7d001040000000 0223 71001040000000 0c 01"
replay "a stream that ends behind a TIP" "ffe0 0f05" "$on 2d0010 2d0210"
replay "a stream that ends behind an outcome" "75fe ffe0" "$on 0e"
replay "a TIP where a bit was due" "7500 ffe0 0f05" "$on 2d0210 01"

# LAST_LIP may still stand for four packets after a PSB [RTIT 3.3.9]: a compressed address refers to it.
"$COFI" asm --gen=rtit - <<'E' | "$COFI" dump --raw - --gen=rtit --cyc=0 --lastip
PSB
FUP.PGE 2: 123456780000
PSB
TIP 0: ????????1111
E

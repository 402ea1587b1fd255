cat >s <<'E'
unit rtit
reset
rdmsr 769 gp
wrmsr 768 0 gp
wrmsr 760 1000 gp
rdmsr 768
rdmsr 769
wrmsr 768 20 gp
wrmsr 769 10 gp
wrmsr 771 40 gp
wrmsr 77d 0 gp
wrmsr 77d 2
wrmsr 76c 5
reset init
rdmsr 76c
reset warm
rdmsr 76c gp
E
"$COFI" sim --explain s
sed -i 's/rdmsr 769$/rdmsr 769 gp/' s
"$COFI" sim s

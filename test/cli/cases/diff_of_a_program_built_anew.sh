# Functions lie elsewhere, and are the same where they have the same name.
. "$CASES/diff.inc"
mkdir before after
(cd before && make_program)
(cd after && make_program 'another: imul %rdi, %rdi; ret')
"$COFI" record -q -o before.data -- before/program 5
"$COFI" record -q -o after.data -- after/program 6
"$COFI" diff before.data after.data | show

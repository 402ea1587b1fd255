# [RTIT 1.2]
"$COFI" caps --unit=rtit | sed -n '/^0/p'

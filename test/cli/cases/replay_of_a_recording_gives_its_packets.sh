$COFI record -q --host=step -o r.data -- /bin/true
$COFI replay r.data | sed 's/thread [0-9]*/thread N/; s/[0-9]* packets/N packets/'

# As the other commands do: the recording is the file data in it.
"$COFI" record -q -o file.data -- true
mkdir folder && cp file.data folder/data
"$COFI" dump file.data >whole; echo $?
"$COFI" dump folder | cmp - whole; echo $?

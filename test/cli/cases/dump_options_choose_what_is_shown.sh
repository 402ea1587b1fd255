printf 'psb\ntsc 1001000\npad\ncbr 18\npsbend\nmode.exec cs.l\ntip.pge 3: 401000\ncyc 5\ntnt.8 !.\nmtc 47\npip 6963f6000\nvmcs 123456000\ntip.pgd 0: ?\n' | $COFI asm >t.bin || exit
echo '-- all that is no time, PAD or CYC'
$COFI dump --no-pad --no-timing --no-offset t.bin
echo '-- without CYC, with bytes and addresses'
$COFI dump --no-cyc --bytes --lastip t.bin
echo '-- a range, ptdump'\''s way and ours'
$COFI dump --no-sync t.bin:0x1f-0x28
$COFI dump --no-sync --from=0x1f --to=0x28 --raw t.bin
echo '-- quiet'
$COFI dump --quiet t.bin

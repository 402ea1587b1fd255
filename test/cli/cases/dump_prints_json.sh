printf 'psb\npsbend\ntip.pge 3: ffffffff81000000\ncyc 5/3\ntnt.8 !.\nptw 1: 123456789abcdef, ip\nfup 1: 10\n' | $COFI asm | $COFI dump --json -

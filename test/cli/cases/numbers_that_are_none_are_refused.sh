for bad in 'flow --limit=-1' 'flow --limit=1x' 'flow --tid=-1' 'flow --threads=0' 'flow --from=-5' 'flow --from=5 --to=1' \
    'flow --from=@9 --to=@8' 'calls --min=-3' 'calls --min=101' 'calls --depth=' 'check --gaps=many' 'dump --from=-1' \
    'replay --ctl=ctl' 'record --limit=-1'; do
    "$COFI" $bad 2>&1 | head -1
done

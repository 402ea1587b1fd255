# No option is left out without a word: what the chosen host cannot do is refused before anything runs.
for options in '--host=step --snapshot=1M' '--host=step --max-size=1M' '--host=fast --truth=t' '--snapshot=1M --limit=5' '--max-size=1M --unit=rtit' '--snapshot=1M --unit=rtit'; do
    "$COFI" record $options -- touch ran 2>&1
    echo "$? $(ls)"
done

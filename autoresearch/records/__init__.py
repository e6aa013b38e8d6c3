"""The only truth about runs: run directory, ledger, events, finish flag."""

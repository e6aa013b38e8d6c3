"""The authoritative records of runs: run directory, ledger, events, finish flag."""

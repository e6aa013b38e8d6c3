"""Where hypotheses come from, one file per source; `registry` knows them by name."""

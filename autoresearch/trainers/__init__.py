"""One module per training framework: its log lines, config checks, metrics files and leftovers."""

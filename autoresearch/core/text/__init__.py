"""Text: durations, names, log lines, shell words, paths."""

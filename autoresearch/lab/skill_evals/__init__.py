"""The skill that coding agents load, and its evals with and without it."""

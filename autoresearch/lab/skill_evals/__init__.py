"""The skill that coding agents load, and attempts at its evals with and without it."""

"""Attempts of coding agents at the skill's evals, with and without the skill."""

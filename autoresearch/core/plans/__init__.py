"""Staged plans: stages, conditions, and where a plan stands."""

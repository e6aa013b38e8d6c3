"""Staged plans: stages, conditions, and the current state of a plan."""

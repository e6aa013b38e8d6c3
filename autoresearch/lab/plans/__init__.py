"""Staged plans: read, committed, approved, run stage by stage as campaigns, concluded, reported."""

"""Staged plans: read, fixed in git, approved, run stage by stage as campaigns, concluded, told."""

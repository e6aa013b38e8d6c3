"""git: snapshots and branches, made without touching the user's checkout."""

"""Ideas of a campaign turned into commits and runs, each in a worktree of its own."""

"""The Runner: one stdlib-only file that starts a trainer and leaves no process behind."""

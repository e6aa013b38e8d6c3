"""What is asked of a coding agent, what it answers, and what it may not change."""

"""What a campaign asks of a coding agent: propose, edit, fix, review."""

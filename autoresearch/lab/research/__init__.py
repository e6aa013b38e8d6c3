"""What a campaign does with a coding agent: ask it, measure what it did, and take only that."""

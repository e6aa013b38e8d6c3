"""Campaigns: ideas, the space that they come from, what was decided about each, and when to stop."""

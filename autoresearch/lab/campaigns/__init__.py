"""The controller of a running campaign, and everything it does."""

"""A campaign at work: its controller, and what the controller does."""

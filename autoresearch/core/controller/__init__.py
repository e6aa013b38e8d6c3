"""The controller's decisions: from the state of a campaign, and what the machine is doing, to its next actions."""

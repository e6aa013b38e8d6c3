"""What is said to whom when a run or a campaign needs nobody any more, or somebody."""

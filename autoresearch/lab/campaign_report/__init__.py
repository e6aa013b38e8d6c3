"""What a campaign tells: reports, plots, memory, timeline."""

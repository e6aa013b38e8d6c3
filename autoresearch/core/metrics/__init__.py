"""Metrics: the objective, the names of series, sums over them, and what a line of output says."""

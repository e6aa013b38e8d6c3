"""Metrics: the objective, the names of metric series, expressions over them, and signals in lines of output."""

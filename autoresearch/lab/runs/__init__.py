"""A run from its launch to its end: started, watched, stopped, found again."""

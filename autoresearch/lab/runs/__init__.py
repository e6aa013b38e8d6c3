"""A run from launch to end: started, watched, stopped, recovered."""

"""What is done: run, watch, measure, judge, collect. Takes what it touches as arguments."""

"""The program's work: run, watch, measure, judge, collect. External parts are passed as arguments."""

"""What things are: nouns and rules. Pure: no clock, no file, no process."""

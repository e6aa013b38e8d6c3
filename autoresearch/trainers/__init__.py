"""What we know about each training framework: its lines, its lint, its sinks, its leftovers."""

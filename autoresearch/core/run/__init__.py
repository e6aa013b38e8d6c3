"""One run: what was decided about it, its limits, how it ended, its row; and what drives it: trainer, launcher."""

"""What came of a run: measured, judged, explained, compared, written down."""

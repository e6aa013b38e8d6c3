"""The results of a run: measured, judged, explained, compared, recorded."""

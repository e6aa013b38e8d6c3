"""Readers of metrics: JSONL, validation files, console logs."""

"""Readers of metrics: JSONL, validation files, TensorBoard, trainer states, trackers, console logs."""

"""Readers of metrics: JSONL, validation files, TensorBoard, trainer states, console logs."""

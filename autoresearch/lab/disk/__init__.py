"""What is on the disks: planned, measured, and cleaned up."""

"""The places a run can be started in: one file per place."""

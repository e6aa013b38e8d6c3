"""The launchers: each kind of target that a run can be started on, with its helper files."""

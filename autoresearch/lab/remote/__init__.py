"""Runs on other hosts: submitted, looked at, reconciled."""

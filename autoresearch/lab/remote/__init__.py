"""Runs on other hosts: submitted, followed, reconciled."""

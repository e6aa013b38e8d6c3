"""Launching a resolved run: claimed, its code kept on a branch, handed to the Runner."""

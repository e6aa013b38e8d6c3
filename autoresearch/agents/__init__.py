"""Coding agents, one thin file each; `registry` knows them by name."""

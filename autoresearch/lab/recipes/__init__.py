"""Recipes and commands as a run changes them: overrides, parents, seeds."""

"""Resolves a blueprint against files, recipe, trainer and machine before a run. Nothing is written."""

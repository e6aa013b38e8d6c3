"""Blueprints: parsing of the text into sections, items, notes and values; lint."""

"""Blueprints: text into sections, items, notes and values; what is wrong with them."""

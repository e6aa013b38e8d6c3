"""Before a run: a blueprint is resolved against files, recipe, trainer and machine. Nothing is written."""

"""One turn of a coding agent: its environment, sandbox, limits and end."""

"""The CLI's commands for clients of the Model Context Protocol: two tools over stdin and stdout."""

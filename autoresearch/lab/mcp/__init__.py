"""The CLI's commands for clients of the Model Context Protocol: six tools over stdin and stdout."""

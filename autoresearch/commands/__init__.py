"""The front room: one file per command. Parse, call lab, print. The only room that prints."""

"""The front room: one file per command. Parse, call lab, print. The only room that prints.

A command declares its options and arguments beside its parameters, as `Annotated[str, Option(help=...)]`.
"""

from collections.abc import Callable
from typing import Any

REPAIRED = "what was repaired"  # stands in a line to type for the words of whoever repaired it


class Option:
    """A word with dashes and, unless it is a flag, its value; without a name of its own it is called as its parameter.

    `checked` sees a value that was typed, and refuses it with a UsageError. The rest is for the help page.
    """

    def __init__(self, *names: str, checked: Callable[[str], str] | None = None, **shown: Any) -> None:
        self.names, self.checked, self.shown = names, checked, shown


class Positional(Option):
    """A word that is known by its order; of a list, all that follow."""

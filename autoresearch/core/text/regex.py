"""Regular expressions that are compiled at their first use.

Compiling one may take milliseconds, and a command uses few of the expressions in the modules that it imports.
"""

from __future__ import annotations

import re
from typing import cast


class _Later:
    """Proxy that compiles the pattern at the first attribute access and then caches its attributes."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> object:
        attribute: object = getattr(re.compile(*self._source), name)
        self.__dict__[name] = attribute  # __getattr__ is not called for it again
        return attribute


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile` at the first use. Errors in the pattern are raised only then, so a test must use it."""
    return cast("re.Pattern[str]", _Later(pattern, flags))

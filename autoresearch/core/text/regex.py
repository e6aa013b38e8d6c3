"""Regular expressions that are compiled when they are first used.

Compiling takes up to milliseconds each, and a command uses few of those that stand in the files it imports.
"""

from __future__ import annotations

import re
from typing import cast


class _Later:
    """Becomes the compiled pattern, name by name."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._wanted = (pattern, flags)

    def __getattr__(self, name: str) -> object:
        found: object = getattr(re.compile(*self._wanted), name)
        self.__dict__[name] = found  # not missing at the next access
        return found


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile` at the first use. Errors in the pattern are raised only then, so a test must use it."""
    return cast("re.Pattern[str]", _Later(pattern, flags))

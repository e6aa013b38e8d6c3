"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import re
from typing import cast

from autoresearch.runner.basics import LazyPattern


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile` at the first use. Errors in the pattern are raised only then, so a test must use it."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))

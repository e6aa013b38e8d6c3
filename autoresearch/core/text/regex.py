"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import re
from typing import AnyStr, cast

from autoresearch.runner.basics import LazyPattern


def later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile` at the first use. Errors in the pattern are raised only then, so a test must use it."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))

"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import re
from types import ModuleType
from typing import AnyStr, cast

from autoresearch.runner.basics import LazyPattern


def later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile` at the first use. Errors in the pattern are raised only then, so a test must use it."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))


def compile_now(*modules: ModuleType) -> None:
    """Compile the expressions of modules, for somebody who has the time now and will not later."""
    for value in (value for module in modules for value in vars(module).values()):
        if isinstance(value, LazyPattern):
            value.match  # noqa: B018 - compiles it

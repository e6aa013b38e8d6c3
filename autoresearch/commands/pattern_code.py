"""The code of regular expressions, kept where Python keeps that of modules.

Python compiles a module once and a regular expression anew in every process, in 0.1 to 3 ms: `run --dry-run` spent 27
of its 137 ms on 120 of them. Out of this file each takes 0.01 ms. A process that had to compile many writes the file
again; where it cannot be written, or a Python has other internals, all are compiled as ever.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from marshal import dumps, loads
from pathlib import Path
from typing import Any

_MANY, _MOST = 8, 2000  # so many new ones are worth writing; beyond that they are made of texts that vary
_SPECIAL = int(re.DEBUG | re.LOCALE)


class PatternCode:
    """By text and flags of a regular expression: what `_sre.compile` makes it of."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._new = path, 0
        self._kept: dict[tuple[str | bytes, int], bytes] = {}
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            version, kept = loads(path.read_bytes() if path else b"")
            if version == sys.version and len(kept) < _MOST:
                self._kept = kept

    def use(self) -> None:
        """From now on `re` asks here for what it has not compiled yet."""
        python: Any = re
        with contextlib.suppress(AttributeError):
            self._parse, self._code = python._parser.parse, python._compiler._code
            self._made, self._compile = python._compiler._sre.compile, python._compiler.compile
            python._compiler.compile = self.compile

    def compile(self, pattern: Any, flags: int = 0) -> Any:
        """What `re._compiler.compile` does."""
        if pattern.__class__ not in (str, bytes) or flags & _SPECIAL:
            return self._compile(pattern, flags)
        if kept := self._kept.get((pattern, int(flags))):
            return self._made(pattern, *loads(kept))
        parsed = self._parse(pattern, flags)
        groups, numbers = parsed.state.groups, parsed.state.groupdict
        names = {number: name for name, number in numbers.items()}
        listed = tuple(map(names.get, range(groups)))
        made_of = (int(flags | parsed.state.flags), [*map(int, self._code(parsed, flags))], groups - 1, numbers, listed)
        if len(self._kept) < _MOST:
            self._kept[pattern, int(flags)] = dumps(made_of)
            self._new += 1
        return self._made(pattern, *made_of)

    def keep(self) -> None:
        """Write what is new, if that is worth it."""
        if self._new < _MANY or sys.dont_write_bytecode or not self._path:
            return
        temporary = self._path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            temporary.write_bytes(dumps((sys.version, self._kept)))
            temporary.replace(self._path)


def kept_beside_modules() -> PatternCode:
    """That of this installation, for this version of Python."""
    return PatternCode(Path(__spec__.cached).with_suffix(".regex") if __spec__.cached else None)

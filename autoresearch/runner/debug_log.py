"""A log of what our programs do, for a bug report: switched on by `--debug`, or by AUTORESEARCH_DEBUG=1.

Each started program with its arguments, each YAML file that is read, each traceback. The variable then holds the path
of the file, so that what is started below writes there, too.
"""

from __future__ import annotations

import os

from .masking import clean_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

VARIABLE = "AUTORESEARCH_DEBUG"
MOST = 2000  # characters of a command line
_OFF = ("", "0", "no", "false", "off")
_logger: logging.Logger | None = None
_watches = False


def note(message: str, *values: object, traceback: BaseException | None = None) -> None:
    """Log a line, and the traceback of an error."""
    if _logger is not None:
        _logger.debug(message, *values, exc_info=traceback)


def inherited() -> dict[str, str]:
    """The variable for a program whose environment is not ours; {} while it is off."""
    return {VARIABLE: os.environ[VARIABLE]} if _logger is not None else {}


def here() -> str:
    """The working directory, which may have been removed."""
    try:
        return os.getcwd()
    except OSError as error:
        return f"nowhere ({error.strerror})"


def begin(title: str, folder: str = "") -> str:
    """Open the log if it is asked for; returns the path of a file that was made for it in `folder`, else "".

    Raises OSError if it cannot be written. `title` stands in each line.
    """
    asked = os.environ.get(VARIABLE, "")
    inherits = "/" in asked
    if asked.lower() in _OFF or not (inherits or folder):
        return ""
    import time

    name = time.strftime("%Y%m%d-%H%M%S")
    path = asked if inherits else f"{folder}/{name}-{os.getpid()}.log"
    _open(path, title)
    os.environ[VARIABLE] = path
    return "" if inherits else path


def _open(path: str, title: str) -> None:
    import logging

    global _logger
    if _logger is not None:
        return  # a command within a command, in one process

    class Masked(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return clean_text(super().format(record))

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(Masked(f"%(asctime)s [%(process)d {title.replace('%', '%%')}] %(message)s"))
    logging.raiseExceptions = False  # a disk that has become full ends no command
    _logger = logging.getLogger("autoresearch.debug")
    _logger.setLevel(logging.DEBUG)
    _logger.propagate = False
    _logger.addHandler(handler)
    global _watches
    if not _watches:  # a hook cannot be taken back
        _watches = True
        _watch_programs()


def end() -> None:
    """Close the log."""
    global _logger
    if _logger is None:
        return
    for handler in list(_logger.handlers):
        _logger.removeHandler(handler)
        handler.close()
    _logger = None


def _watch_programs() -> None:
    """Have each program logged that is started by `subprocess`, whichever library starts it (PEP 578)."""
    import shlex
    import sys

    def audit(event: str, values: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and _logger is not None:
            _, words, folder, _ = values
            words = [words] if isinstance(words, (str, bytes, os.PathLike)) else words
            note("starts in %s: %s", folder or here(), shlex.join(map(os.fsdecode, words))[:MOST])

    sys.addaudithook(audit)

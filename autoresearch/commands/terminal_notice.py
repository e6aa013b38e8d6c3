"""The terminal that waited rings and shows a notice, for whoever looks elsewhere.

BEL is heard in every terminal. OSC 9 is a notice of the desktop in iTerm2, kitty, WezTerm, Windows Terminal and
Ghostty; a terminal that does not know it ignores it. tmux passes BEL on and drops OSC 9, so that is wrapped for it,
and arrives under `set -g allow-passthrough on` (tmux's own default is off; measured with 3.3a).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from autoresearch.runner.masking import clean_text

SHOWN_MAX = 120  # characters
_BEL, _ESC = "\a", "\x1b"


def ring(text: str) -> None:
    """Ring and show a text where a person waits: stderr is a terminal, and the setting `bell` is not off."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and _is_on():
        sys.stderr.write(sequence(text, in_tmux=bool(os.environ.get("TMUX"))))
        sys.stderr.flush()


def sequence(text: str, *, in_tmux: bool) -> str:
    """What is written for a text; control characters in it are left out."""
    shown = "".join(char for char in clean_text(" ".join(text.split())) if char.isprintable())[:SHOWN_MAX]
    # not 9;4 and its like, which some terminals take for a progress bar: the text does not begin with a digit
    notice = f"{_ESC}]9;autoresearch: {shown}{_BEL}"
    return _BEL + (f"{_ESC}Ptmux;{notice.replace(_ESC, _ESC * 2)}{_ESC}\\" if in_tmux else notice)


def _is_on() -> bool:
    from autoresearch.core.metrics.python_values import truth
    from autoresearch.errors import AutoresearchError
    from autoresearch.lab import settings

    try:
        return truth(settings.load(Path.cwd(), environ=os.environ).text("bell")) is not False
    except (AutoresearchError, OSError):
        return True

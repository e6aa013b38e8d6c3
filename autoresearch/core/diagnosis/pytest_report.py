"""pytest's report of the first test that failed, as a failure: it prints exceptions in a form of its own."""

from __future__ import annotations

from collections.abc import Iterable

from autoresearch.core.diagnosis.failure import MAX_LINE, Failure
from autoresearch.core.diagnosis.kinds import of_exception
from autoresearch.core.diagnosis.log_lines import TracebackFrame, frame
from autoresearch.core.text.regex import later

_TEST = later(r"_{3,} ?(?P<name>\S.{0,200}?) ?_{3,}$")  # begins what is told of it
_END = later(r"[=!]{3,}")
_PLACE = later(
    r"(?P<path>[^\s:][^:\n]{0,400}):(?P<line>\d{1,7}): ?"
    r"(?:in (?P<function>\S{1,200})|(?P<raised>[A-Za-z_][\w.]{0,200}))?$"
)
_SAID = later(r"E {3,12}(?P<text>.*)$")
_EXCEPTION = later(r"(?:[A-Za-z_]\w{0,80}\.){0,9}[A-Z]\w{0,80}(?::|$)")
_BARE_ASSERT = "assert "  # of a test without a message of its own
MOST_LINES = 60  # that are kept of what is told of a test


def first_failed_test(lines: Iterable[str]) -> tuple[Failure, tuple[str, ...]] | None:
    """Its exception, raised at the last frame in the user's own code, and the lines up to there; None without one.

    The test's name, or what pytest was doing, is the failure's note. A chain of exceptions begins with its root.
    """
    test, told, frames, said = "", list[str](), list[TracebackFrame](), list[str]()
    for line in lines:
        if head := _TEST.match(line):
            if said:
                break
            test, told, frames = head["name"], [], []
        elif _END.match(line) or not test:
            if said:
                break
            test = ""
            continue
        told.append(line)
        if one := _SAID.match(line):
            said.append(one["text"].strip())
            frames += [inner for inner in (frame(one["text"]),) if inner]
        elif place := _PLACE.match(line):
            frames.append(TracebackFrame(place["path"], int(place["line"]), place["function"] or ""))
            if place["raised"] and said:
                break
        elif said and frames and frames[-1].function:
            break  # the short form, which names each place before what was raised there
    if not said:
        return None
    first = next((one for one in said if _EXCEPTION.match(one)), said[0])
    text = f"AssertionError: {first}" if first.startswith(_BARE_ASSERT) else first
    own = next((one for one in reversed(frames) if one.is_own), frames[-1] if frames else None)
    kind = of_exception(text).kind
    return Failure(kind, text[:MAX_LINE], frame=own, note=test), tuple(told[-MOST_LINES:])

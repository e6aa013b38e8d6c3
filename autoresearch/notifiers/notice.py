"""A notice: what happened to which run or campaign, in a title and a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from autoresearch.records.secrets import clean_text

LINE_MAX = 400  # characters: a line of a traceback must not fill a telephone


class NoticeKind(StrEnum):
    """What a notice is about; the words of `events:`."""

    RUN_END = "run_end"  # a lone run is over, whatever its ending
    CAMPAIGN_END = "campaign_end"
    PAUSE = "pause"  # of a campaign, whoever paused it; also a controller that ended on an error
    CONFIRMED = "confirmed"  # an idea was put to the proof and passed
    CRASH_STORM = "crash_storm"  # a pause because the last ideas died alike
    DISK_FULL = "disk_full"
    WAITING = "waiting"  # for a person: code ideas to approve, or any idea at all


GROUPS = {"end": (NoticeKind.RUN_END, NoticeKind.CAMPAIGN_END), "all": tuple(NoticeKind)}


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice. `key` names the occasion within its run or campaign: a notice is sent once for each."""

    kind: NoticeKind
    key: str
    title: str
    lines: tuple[str, ...]

    @property
    def body(self) -> str:
        """The lines as text, each cut to LINE_MAX; secrets are masked."""
        shown = (" ".join(line.split()) for line in self.lines)
        return clean_text("\n".join(line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…" for line in shown))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lines": list(self.lines)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Notice:
        """Read what `to_json` wrote. Raises KeyError, ValueError."""
        return cls(NoticeKind(record["kind"]), record["key"], clean_text(record["title"]), tuple(record["lines"]))

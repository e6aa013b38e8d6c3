"""The directory of a campaign: the one place that knows its file names, and its journal.

campaign.json     what was decided at the start (CampaignSpec); never changed
journal.jsonl     what happened to its ideas, one object a line, by its controller; the truth about ideas
requests.jsonl    what people ask of it (pause, stop, skip, add, set), by any command; read by the controller
verdicts.jsonl    claims about rows of the ledger made later: confirmed, demoted, smoke, marked
results.tsv       the ledger; the truth about runs
controller.lock   flock'd by the controller while it lives
controller.json   who that is: pid, start, boot id
controller.log    what it printed
controller.sessions.json   the tmux session of the last controller, to be closed by the next one
judge.lock        flock'd while a run is judged and its row is written
queue/            ideas added by `campaign add`
tpe.journal       the optimiser's own
turns/            what the researcher was asked, and what it answered
waiting.json      what it waits for (a usage limit, an outage), as long as it does
<experiment>/     run directories
finish.flag       at the end of the campaign
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import NotFoundError
from autoresearch.records import lines
from autoresearch.records.appending import append_line, json_line, sync_directory
from autoresearch.records.rundir import is_locked, read_json, write_json

# of an idea: its code and its settings, which must come back as they were (a queue with a secret in them is refused)
EXECUTED = frozenset({"files", "patches", "blueprint", "overrides"})


@dataclass(frozen=True, slots=True)
class CampaignDir:
    """Every path of one campaign."""

    path: Path

    @property
    def spec(self) -> Path:
        return self.path / "campaign.json"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def requests(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def verdicts(self) -> Path:
        return self.path / "verdicts.jsonl"

    @property
    def ledger(self) -> Path:
        return self.path / "results.tsv"

    @property
    def lock(self) -> Path:
        return self.path / "controller.lock"

    @property
    def controller(self) -> Path:
        return self.path / "controller.json"

    @property
    def log(self) -> Path:
        return self.path / "controller.log"

    @property
    def judge_lock(self) -> Path:
        return self.path / "judge.lock"

    @property
    def queue(self) -> Path:
        return self.path / "queue"

    @property
    def turns(self) -> Path:
        return self.path / "turns"

    @property
    def waiting(self) -> Path:
        return self.path / "waiting.json"

    @property
    def flag(self) -> Path:
        return self.path / "finish.flag"

    @property
    def controlled(self) -> bool:
        """Whether a controller lives: the kernel's lock says so, whatever killed the last one."""
        return is_locked(self.lock)


def write_spec(place: CampaignDir, spec: CampaignSpec) -> None:
    """Write campaign.json, atomically and durably; its presence is the campaign's beginning."""
    write_json(place.spec, spec.to_json())
    sync_directory(place.path)


def read_spec(place: CampaignDir) -> CampaignSpec:
    """The spec of a campaign, under the rules as they were changed since.

    Raises NotFoundError where there is none, or none that can be understood.
    """
    spec = declared_spec(place)
    for line in entries(place.journal, needle=b'"rules"'):
        if line.get("do") == "rules":
            with contextlib.suppress(ValueError):  # damaged: passed over, as in the fold
                spec = spec.with_rules(line)
    return spec


def declared_spec(place: CampaignDir) -> CampaignSpec:
    """The spec as it was decided at the start. Raises NotFoundError as `read_spec` does."""
    record = read_json(place.spec)
    if record is None and place.spec.exists():
        raise NotFoundError(
            f"{place.spec} is damaged: it is no JSON object",
            hint="put it right, or back from a copy; journal, ledger and branches lie as they were",
            code="spec_damaged",
        )
    if record is None:
        raise NotFoundError(f"{place.path} holds no campaign", hint="autoresearch campaign status lists them")
    try:
        return CampaignSpec.from_json(record)
    except (KeyError, TypeError, ValueError) as error:
        raise NotFoundError(f"{place.spec} is damaged: {error}", code="spec_damaged") from error


def add(path: Path, do: str, *, t: float | None = None, **fields: Any) -> None:
    """Append one object to the journal, the requests or the verdicts, durably."""
    append_line(
        path, json_line({"t": round(time.time() if t is None else t, 3), "do": do, **fields}, executed=EXECUTED)
    )


def entries(path: Path, since: int = 0, *, needle: bytes = b"") -> Iterator[dict[str, Any]]:
    """The objects after line `since`, each with its number as `seq`; half a line is passed over.

    With a `needle`, lines that do not hold these bytes are not looked at.
    A last line that lacks only its end counts: the next one to be added ends it, and then it would count.
    """
    with lines.reading(path) as fd:
        if fd is None:
            return
        for seq, line in enumerate(lines.forwards(fd), 1):
            if seq <= since or needle not in line:
                continue
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield {**record, "seq": seq}

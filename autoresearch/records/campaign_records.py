"""The directory of a campaign: all its files, and its journal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.errors import NotFoundError
from autoresearch.records import lines
from autoresearch.records.appending import append_line, json_line, sync_directory
from autoresearch.records.rundir import FileIn, is_locked, read_json, write_json

if TYPE_CHECKING:
    from autoresearch.core.campaign.spec import CampaignSpec

# an idea's code and settings, which must be read back unmasked (a queue with a secret in them is refused)
EXECUTED = frozenset({"files", "patches", "blueprint", "overrides", "terms"})
LOG_ONLY = "· "  # begins what stands in the controller's log, and is not shown to those who follow it


@dataclass(frozen=True, slots=True)
class CampaignDir:
    """The directory of one campaign, with the path of every file in it; each run has a directory of its own there."""

    path: Path

    spec = FileIn("campaign.json")  # the settings at the start (CampaignSpec); never changed
    journal = FileIn("journal.jsonl")  # the history of its ideas, by its controller; authoritative about ideas
    requests = FileIn("requests.jsonl")  # users' requests (pause, stop, skip ...), by any command
    # Later claims about rows of the ledger: confirmed, demoted, undecided, deterministic, smoke, marked.
    verdicts = FileIn("verdicts.jsonl")
    ledger = FileIn("results.tsv")  # authoritative about runs
    controller = FileIn("controller.json")  # the controller's identity: pid, start, boot id
    lock = FileIn("controller.lock")  # held by flock by the controller while it lives
    log = FileIn("controller.log")
    judge_lock = FileIn("judge.lock")  # held by flock while a run is judged and its row is written
    queue = FileIn("queue")  # ideas added by `campaign add`
    turns = FileIn("turns")  # the agent's prompts and answers
    disk = FileIn("disk.json")  # what its recorded runs keep and left, in bytes; written after each run
    waiting = FileIn("waiting.json")  # what the campaign is waiting for (a usage limit, an outage), while it does
    flag = FileIn("finish.flag")  # at the end of the campaign

    def report_files(self) -> dict[str, str]:
        """The paths of its `report`, a page, and of its `picture`, as far as they were written."""
        named = {"report": self.path / "report.html", "picture": self.path / "progress.png"}
        return {name: str(path) for name, path in named.items() if path.is_file()}

    @property
    def controlled(self) -> bool:
        """Whether a controller is alive, according to its flock, which the kernel releases however it dies."""
        return is_locked(self.lock)


def write_spec(campaign_dir: CampaignDir, campaign_spec: CampaignSpec) -> None:
    """Write campaign.json, atomically and durably; the campaign exists from then on."""
    write_json(campaign_dir.spec, asdict(campaign_spec))
    sync_directory(campaign_dir.path)


def read_spec(campaign_dir: CampaignDir, *, rules: bool = True) -> CampaignSpec:
    """The spec of a campaign, with the changes of rules made since its start, or only with what was read again.

    Raises NotFoundError if there is none, or if it is damaged.
    """
    spec = declared_spec(campaign_dir)
    for line in entries(campaign_dir.journal, needle=b'"rules"'):
        if line.get("do") == "rules" and (rules or "terms" in line):
            with contextlib.suppress(KeyError, TypeError, ValueError):  # damaged: skipped, as when it is folded
                spec = spec.with_rules(line)
    return spec


def spec_of(campaign_dir: CampaignDir) -> CampaignSpec | None:
    """The same; None for the directory of a lone run, which holds no campaign."""
    return read_spec(campaign_dir) if campaign_dir.spec.is_file() else None


def declared_spec(campaign_dir: CampaignDir) -> CampaignSpec:
    """The spec as it was at the start. Raises NotFoundError as `read_spec` does."""
    from autoresearch.core.campaign.spec import CampaignSpec

    record = read_json(campaign_dir.spec)
    if record is None and campaign_dir.spec.exists():
        raise NotFoundError(
            f"{campaign_dir.spec} is damaged: it is no JSON object",
            hint="put it right, or back from a copy; journal, ledger and branches lie as they were",
            code="spec_damaged",
        )
    if record is None:
        raise NotFoundError(f"{campaign_dir.path} holds no campaign", hint="see `autoresearch campaign status`")
    try:
        return CampaignSpec.from_json(record)
    except (KeyError, TypeError, ValueError) as error:
        raise NotFoundError(f"{campaign_dir.spec} is damaged: {error}", code="spec_damaged") from error


def add(path: Path, do: str, *, t: float | None = None, **fields: Any) -> None:
    """Append one object to the journal, the requests or the verdicts, durably."""
    line = json_line({"t": round(time.time() if t is None else t, 3), "do": do, **fields}, executed=EXECUTED)
    append_line(path, line)


def entries(path: Path, since: int = 0, *, needle: bytes = b"") -> Iterator[dict[str, Any]]:
    """Yield the objects after line `since`, each with its line number as `seq`; invalid lines are skipped.

    With a `needle`, only lines that contain these bytes are parsed.
    A last line that lacks only its newline counts, because the next append will add the newline.
    """
    with lines.reading(path) as fd:
        if fd is None:
            return
        known = ((seq, line) for seq, line in enumerate(lines.forwards(fd), 1) if seq > since and needle in line)
        for seq, record in lines.objects(known):
            yield {**record, "seq": seq}

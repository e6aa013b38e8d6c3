"""The directory of a campaign; and events.jsonl, its only record, from which all else of it is made.

    {"t": 1795995182.685, "do": "started", "run": "higher-rxaa26", "n": 41, "prev": "5d41...", "hash": "7d79..."}

The first line holds the campaign's spec; each further one is what happened to an idea or a run (`ran` with its ledger
row), a claim, or a request of a user. Lines are only appended, under a lock. `hash` is of the line up to it, `prev` is
that of the line before. The last one is also kept in `<state>/seals`, which training in the sandbox cannot write: it
shows where a record was cut. A record without it (another account, a container, a moved project) is used as it is.

Reading finds damaged lines. One that the chain goes on without costs nothing: its writer was killed, or it is there
twice. The row of a damaged `ran` comes from the ledger, if the run's own record agrees. Any other damage is an error
that names the line. Where the end is missing, or all of it, what the ledger has is taken in (`imported`). The next
append then writes all of it anew.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable, NotFoundError
from autoresearch.records.files import (
    append_line,
    json_line,
    lines_from,
    locked,
    read_json,
    reading,
    sync_directory,
    unwritable,
    write_json,
)
from autoresearch.records.hostile import write_atomically
from autoresearch.records.index import state_home
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import FileIn, RunDir
from autoresearch.runner.basics import is_locked
from autoresearch.runner.masking import mask_values

if TYPE_CHECKING:
    from autoresearch.core.campaign.spec import CampaignSpec

# an idea's code and settings, which must be read back unmasked (a queue with a secret in them is refused)
EXECUTED = frozenset({"files", "patches", "blueprint", "overrides", "terms"})
Event = dict[str, Any]

_END = later(rb', "n": (\d+), "prev": "([0-9a-f]*)", "hash": "([0-9a-f]{16})"}\n')
_RUN = later(rb'"do": "ran".*"run_id": "([^"\\]+)"')
DAMAGED = "damaged"  # stands for a line that was damaged
LOG_ONLY = "· "  # begins what stands in the controller's log, and is not shown to those who follow it


@dataclass(frozen=True, slots=True)
class CampaignDir:
    """The directory of one campaign, with the path of every file in it; each run has a directory of its own there."""

    path: Path

    spec = FileIn("campaign.json")  # the settings at the start (CampaignSpec); never changed
    events = FileIn("events.jsonl")  # all that happened: the only file that is the truth
    events_lock = FileIn("events.lock")  # held by flock while a line is appended to it
    ledger = FileIn("results.tsv")  # the rows among its events
    controller = FileIn("controller.json")  # the controller's identity: pid, start, boot id
    lock = FileIn("controller.lock")  # held by flock by the controller while it lives
    log = FileIn("controller.log")
    judge_lock = FileIn("judge.lock")  # held by flock while a run is judged and its row is written
    queue = FileIn("queue")  # ideas added by `campaign add`
    turns = FileIn("turns")  # the agent's prompts and answers
    flag = FileIn("finish.flag")  # at the end of the campaign

    def report_files(self) -> dict[str, str]:
        """The paths of its `report`, a page, and of its `picture`, as far as they were written."""
        named = {"report": self.path / "report.html", "picture": self.path / "progress.png"}
        return {name: str(path) for name, path in named.items() if path.is_file()}

    @property
    def controlled(self) -> bool:
        """Whether a controller is alive, according to its flock, which the kernel releases however it dies."""
        return is_locked(self.lock)


@dataclass
class Chain:
    """How far a record has been read: its lines are accepted as long as each one follows from the one before."""

    last: str = ""  # hash of the last line
    n: int = 0  # its number
    end: int = 0  # bytes of whole lines
    seen: set[str] = field(default_factory=set)  # the hashes of all lines
    odd: list[bytes] = field(default_factory=list)  # lines since then that are none

    @property
    def damaged_end(self) -> bool:
        """Whether whole lines at the end are none: a line that was cut has no newline."""
        return any(line.endswith(b"\n") for line in self.odd)

    def take(self, line: bytes) -> list[Event]:
        """The event of one whole line, after a DAMAGED one for each that is missing before it; [] if it is none."""
        self.end += len(line) if line.endswith(b"\n") else 0
        found = _END.search(line)
        head = line[: found.start()] if found and found.end() == len(line) else b""
        if not (found and head and _hash(line[: found.start(3)]) == found[3].decode()):
            self.odd.append(line)
            return []
        number, before, own = int(found[1]), found[2].decode(), found[3].decode()
        if own in self.seen:  # it is there twice
            return []
        missing = [] if before == self.last else self.missing(number - self.n - 1)
        self.odd, self.last, self.n = [], own, number
        self.seen.add(own)
        return [*missing, json.loads(head + b"}") | {"seq": number}]

    def missing(self, count: int) -> list[Event]:
        """A DAMAGED event for each of `count` lines that should stand here, with the run whose row it held, if any."""
        runs = [found[1].decode() if (found := _RUN.search(line)) else "" for line in self.odd]
        return [{"do": DAMAGED, "seq": self.n + 1 + i, "run": runs[i] if len(runs) == count else ""}
                for i in range(max(count, 1))]  # fmt: skip


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def chained(event: Mapping[str, Any], n: int, prev: str) -> tuple[bytes, str]:
    """An event as a line that follows the one with the hash `prev`, and its own hash."""
    plain = {name: value for name, value in event.items() if name != "seq"}
    chain = f', "n": {n}, "prev": "{prev}", "hash": "'
    body = json_line(plain, executed=EXECUTED).removesuffix(b"}\n") + chain.encode()
    own = _hash(body)
    return body + own.encode() + b'"}\n', own


# ------------------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class Record:
    """All events of a campaign, whole: what was damaged is repaired."""

    events: list[Event]
    chain: Chain
    remarks: tuple[str, ...] = ()  # what was found of it, in sentences
    as_written: bool = True  # False: the file has to be written anew before anything is appended


def read(campaign_dir: CampaignDir) -> Record:
    """The record of a campaign. Raises EnvironmentUnusable where a line is damaged that nothing else tells of.

    Nothing is written.
    """
    path, chain, events, remarks = campaign_dir.events, Chain(), list[Event](), list[str]()
    with reading(path) as fd:
        for line in () if fd is None else lines_from(fd):
            events += chain.take(line)
    seal = (fd is not None and read_json(seal_path(path))) or {}
    cut = max(0, int(seal.get("n") or 0) - chain.n) if seal and seal.get("hash") not in chain.seen else 0
    if chain.damaged_end and (cut or not seal):
        events += chain.missing(cut)
        cut = 0
    whole = [_repaired(campaign_dir, one, remarks) if one["do"] == DAMAGED else one for one in events]
    added = list(imported(campaign_dir, whole)) if cut or not whole else []
    if cut:
        took = sum(one["do"] == "ran" for one in added)
        gone = f"{counted(cut, 'line')} at the end of {path} are missing"
        remarks.append(f"{gone}; the ledger had {counted(took, 'row')} of them")
    elif fd is not None and seal.get("hash") not in chain.seen:
        why = "is another one" if seal else "is not there"
        remarks.append(f"{path} is unsealed: its last hash in the state directory of this account {why}")
    return Record([*whole, *added], chain, tuple(remarks), as_written=fd is not None and whole == events and not added)


def entries(campaign_dir: CampaignDir, do: str, needle: str = "") -> Iterator[Event]:
    """The events of one kind, oldest first, without reading the others: damaged lines are left out.

    needle: lines without these characters are left out.
    """
    words = f'"do": "{do}"'.encode(), needle.encode()
    with reading(campaign_dir.events) as fd:
        for line in () if fd is None else lines_from(fd, needle=words[1] or words[0]):
            if words[0] in line and words[1] in line and (found := Chain().take(line)) and found[-1]["do"] == do:
                yield found[-1]


def rows(campaign_dir: CampaignDir) -> dict[str, LedgerRow]:
    """The row of each run, by its ID, in the order in which they were recorded."""
    ran = (one for one in read(campaign_dir).events if one["do"] == "ran")
    return {row.run_id: row for row in (LedgerRow.from_cells(one["row"]) for one in ran) if row.run_id}


def holds(campaign_dir: CampaignDir, run: str) -> bool:
    """Whether a run has its row in the record."""
    return any(one["row"].get("run_id") == run for one in entries(campaign_dir, "ran", run))


def _repaired(campaign_dir: CampaignDir, damaged: Event, remarks: list[str]) -> Event:
    """The event of a damaged line: a row from the ledger, if the run's own record has the same value."""
    run, where = damaged["run"], f"{campaign_dir.events}, line {damaged['seq']}, is damaged"
    for row in Ledger(campaign_dir.ledger).find(run):
        own = read_json(RunDir(campaign_dir.path / Path(row.run_dir).name).collected)
        if own is not None and own.get("metric_value") == row.metric_value:
            remarks.append(f"{where}: the row of {run} was taken from the run's own record")
            return {"do": "ran", "t": row.ended, "row": _cells(row), "seq": damaged["seq"]}
    raise EnvironmentUnusable(
        f"{where}, and nothing else tells what it said",
        hint="put the file back from a copy; or move it away, and what the ledger has is taken in again",
        code="record_damaged",
    )


def imported(campaign_dir: CampaignDir, events: Iterable[Event]) -> Iterator[Event]:
    """The rows that the ledger has and the events lack, with an idea for each index that is unknown."""
    known = {one["row"].get("run_id") for one in events if one["do"] == "ran"}
    runs = {one["run"] for one in events if one["do"] == "prepared"}
    ideas = {int(one["index"]) for one in events if one["do"] == "idea"}
    if not ideas and (record := read_json(campaign_dir.spec)):
        yield {"do": "campaign", "spec": record}
    for row in Ledger(campaign_dir.ledger).rows():
        spec = read_json(RunDir(campaign_dir.path / Path(row.run_dir).name).spec) or {}
        why = spec.get("why") or ("baseline" if row.index == 1 else "first" if row.replicate == 1 else "retest")
        if row.run_id in known or row.campaign != campaign_dir.path.name or not row.index:
            continue
        if row.index not in ideas:
            slug = spec.get("slug") or row.run_id.rpartition("-")[0]
            sentence = row.description.rpartition(" [")[0] or row.description
            yield {"do": "idea", "t": row.started, "index": row.index, "branch": row.branch, "commit": row.commit,
                   "parent": "" if row.index == 1 else "baseline", "parent_commit": row.parent_commit,
                   "hypothesis": {"slug": slug, "sentence": sentence}}  # fmt: skip
            ideas.add(row.index)
        if row.run_id not in runs:
            yield {"do": "prepared", "t": row.started, "index": row.index, "run": row.run_id, "run_dir": row.run_dir,
                   "replicate": row.replicate or 1, "why": why, "commit": row.commit, "seed": row.seed}  # fmt: skip
            yield {"do": "started", "t": row.started, "run": row.run_id}
        yield {"do": "ran", "t": row.ended, "row": _cells(row)}


# ------------------------------------------------------------------------------------------------------------ writing


def append(campaign_dir: CampaignDir, do: str, *, t: float | None = None, **fields: Any) -> None:
    """Append one event, durably. Raises EnvironmentUnusable where it cannot be written."""
    with _writing(campaign_dir, begun=do != "campaign"):
        _append(campaign_dir, {"t": round(time() if t is None else t, 3), "do": do, **fields})


def append_row(campaign_dir: CampaignDir, row: LedgerRow, *, unjudged: bool = False, again: bool = False) -> bool:
    """Record the row of a run, once, and show it in the ledger; returns whether it was added. Safe after any kill.

    again: it takes the place of the row that the run has.
    """
    with _writing(campaign_dir):
        added = again or not holds(campaign_dir, row.run_id)
        if added:
            marks = {name: True for name, is_so in (("smoke", unjudged), ("again", again)) if is_so}
            _append(campaign_dir, {"t": round(time(), 3), "do": "ran", "row": _cells(row), **marks})
        if not again and added:
            Ledger(campaign_dir.ledger).append_once(row)
    if again or not added:
        write_ledger(campaign_dir)
    return added


def write_ledger(campaign_dir: CampaignDir) -> bool:
    """Bring the ledger up to what is recorded; returns whether it was not as recorded, and is in `results.tsv.edited`.

    The ledger of lone runs stays as it is.
    """
    return campaign_dir.events.exists() and Ledger(campaign_dir.ledger).show(lambda: rows(campaign_dir).values())


def make_whole(campaign_dir: CampaignDir) -> tuple[str, ...]:
    """Write down what reading repaired, imported or converted, if anything; returns what was found, in sentences."""
    with _writing(campaign_dir):
        record = read(campaign_dir)
        _rewrite(campaign_dir, record)
    return record.remarks


@contextlib.contextmanager
def _writing(campaign_dir: CampaignDir, *, begun: bool = True) -> Iterator[None]:
    try:
        os.stat(campaign_dir.spec if begun else campaign_dir.path)  # noqa: PTH116 - what was removed is not made anew
        with locked(campaign_dir.events_lock):
            yield
    except OSError as error:
        raise unwritable(campaign_dir.events, error) from error


def _append(campaign_dir: CampaignDir, event: Event) -> None:
    path = campaign_dir.events
    seal = read_json(seal_path(path)) or {}
    size = path.stat().st_size if path.exists() else -1
    if seal.get("size") != size:  # a kill came between the line and its seal, or it was touched by others
        seal = _rewrite(campaign_dir, read(campaign_dir))
    line, own = chained(event, seal["n"] + 1, seal["hash"])
    append_line(path, line)
    _seal(path, seal["n"] + 1, own)


def _rewrite(campaign_dir: CampaignDir, repaired: Record) -> dict[str, Any]:
    """Write a record that is not as it was read; returns the number and the hash of its last line."""
    path, data, own = campaign_dir.events, list[bytes](), ""
    if repaired.as_written or not repaired.events:
        return {"n": repaired.chain.n, "hash": repaired.chain.last}
    for n, event in enumerate(repaired.events, 1):
        line, own = chained(event, n, own)
        data.append(line)
    if path.exists():
        write_atomically(path.with_name(f"{path.name}.damaged"), path.read_bytes())
    write_atomically(path, b"".join(data))
    _seal(path, len(data), own)
    return {"n": len(data), "hash": own}


def _seal(path: Path, n: int, own: str) -> None:
    seal = seal_path(path)
    seal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(seal, {"path": str(path), "n": n, "size": path.stat().st_size, "hash": own}, durable=False)


def seal_path(path: Path) -> Path:
    """Where the last hash of a record is kept."""
    return state_home() / "seals" / f"{_hash(os.path.realpath(path).encode())}.json"


def _cells(row: LedgerRow) -> dict[str, str]:
    """The cells that are not empty: numbers read back unchanged, NaN included."""
    cells: dict[str, str] = mask_values({name: cell for name, cell in row.cells().items() if cell})
    return cells


# ----------------------------------------------------------------------------------------------------------- its spec


def write_spec(campaign_dir: CampaignDir, campaign_spec: CampaignSpec) -> None:
    """Record the spec and write campaign.json, atomically and durably; the campaign exists from then on."""
    if next(entries(campaign_dir, "campaign"), None) is None:
        append(campaign_dir, "campaign", spec=mask_values(asdict(campaign_spec)))
    write_json(campaign_dir.spec, asdict(campaign_spec))
    sync_directory(campaign_dir.path)


def read_spec(campaign_dir: CampaignDir, *, rules: bool = True) -> CampaignSpec:
    """The spec of a campaign, with the changes of rules made since its start, or only with what was read again.

    Raises NotFoundError if there is none, or if it is damaged.
    """
    spec = declared_spec(campaign_dir)
    for line in entries(campaign_dir, "rules"):
        if rules or "terms" in line:
            with contextlib.suppress(KeyError, TypeError, ValueError):  # damaged: skipped, as when it is folded
                spec = spec.with_rules(line)
    return spec


def spec_of(campaign_dir: CampaignDir) -> CampaignSpec | None:
    """The same; None for the directory of a lone run, which holds no campaign."""
    return read_spec(campaign_dir) if campaign_dir.spec.is_file() else None


def declared_spec(campaign_dir: CampaignDir) -> CampaignSpec:
    """The spec as it was at the start. Raises NotFoundError as `read_spec` does."""
    from autoresearch.core.campaign.spec import CampaignSpec

    begun = next(entries(campaign_dir, "campaign"), None) if campaign_dir.events.exists() else None
    record = begun["spec"] if begun else read_json(campaign_dir.spec)
    if record is None and campaign_dir.spec.exists():
        raise NotFoundError(
            f"{campaign_dir.spec} is damaged: it is no JSON object",
            hint="put it right, or back from a copy; records, ledger and branches lie as they were",
            code="spec_damaged",
        )
    if record is None:
        raise NotFoundError(f"{campaign_dir.path} holds no campaign", hint="see `autoresearch campaign status`")
    try:
        return CampaignSpec.from_json(record)
    except (KeyError, TypeError, ValueError) as error:
        raise NotFoundError(f"{campaign_dir.spec} is damaged: {error}", code="spec_damaged") from error

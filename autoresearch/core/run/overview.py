"""Overview of all runs of an account on all targets: data types, sorting and filtering."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import Kind


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU that a run on this host uses."""

    uuid: str
    index: int | None = None  # that of nvidia-smi; None if unknown
    used_mib: int | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """What can be said of one thing, flat."""

    def _flat(self, without: Collection[str]) -> dict[str, Any]:
        """The fields by name: what is "" is not known, and durations have one decimal."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in without}
        durations = {name: round(x, 1) for name, x in values.items() if name.endswith("_s") and x is not None}
        return {name: None if value == "" else value for name, value in values.items()} | durations


@dataclass(frozen=True, slots=True)
class RunLine(_Line):
    """One run. Durations are as of now; `since` and `ended` are wall times; None means unknown."""

    run: str
    state: RunState
    place: str = "local"  # as `Target.shown` says it
    kind: str = Kind.LOCAL.value
    job: str = ""  # the launcher's ID of the job
    node: str = ""
    reason: str = ""  # why it is pending or unreachable, or how it ended
    since: float | None = None  # when it entered that state, if recorded
    campaign: str = ""
    member: bool = False  # belongs to a campaign; else it is a lone run
    slug: str = ""
    index: int = 0
    replicate: int = 1
    why: str = ""
    step: int | None = None
    metric_name: str = ""
    metric_value: float | None = None
    upwards: bool = True  # a larger value is better
    gpus: tuple[GpuUse, ...] = ()
    gpu_count: int = 0
    elapsed_s: float | None = None  # of the run itself, without time in a queue
    left_s: float | None = None  # until the nearest limit
    limit: str = ""  # which one: first_step, output (first_step since the last output), max_time, evaluation
    newest_output: str = ""  # the last printed line, until a step is known
    queue_s: float | None = None  # time in the queue before its Runner started
    created: float = 0.0
    session: str = ""
    branch: str = ""
    run_dir: str = ""
    result_dir: str = ""
    ending: str = ""
    verdict: str = ""
    ended: float | None = None
    trouble: str = ""  # why it cannot be read, in a sentence
    name: str = ""  # of its idea; "" for a lone run, or if its campaign was not read

    @property
    def idea(self) -> str:
        """Campaign and idea for display: `sort #3 lr=3e-3`, `sort #3.2 lr=3e-3` for its second run."""
        if not self.member:
            return self.slug
        number, _, words = (self.name or f"#{self.index} {self.slug}").partition(" ")
        again = f".{self.replicate}" if self.replicate > 1 else ""
        return f"{short_campaign(self.campaign)} {number}{again} {words}"

    def to_json(self) -> dict[str, Any]:
        """The flat JSON object; names that `status RUN` also uses are the same."""
        return self._flat(without=("kind", "member", "upwards", "created")) | {
            "place": self.place.removeprefix(f"{self.kind}:"),
            "launcher": self.kind,
            "unreachable_since": self.since if self.state is RunState.UNREACHABLE else None,
            "index": self.index or None,
            "gpus": [gpu.uuid for gpu in self.gpus],
            "gpu_indices": [gpu.index for gpu in self.gpus],
            "gpu_memory_mib": [gpu.used_mib for gpu in self.gpus],
        }


@dataclass(frozen=True, slots=True)
class PlaceLine(_Line):
    """One target: its slots, their use, and whether it answers."""

    place: str
    kind: str
    slots: int = 0  # 0: not given
    used: int = 0  # by live runs, queued ones included
    pending: int = 0
    unreachable_since: float | None = None
    reason: str = ""
    followed: bool | None = None  # its Follower is alive; None if it has none: this host, or no runs on it
    trouble: str = ""  # why its Follower could not start
    gpus: int = 0  # of this host
    gpus_leased: int = 0

    @property
    def free(self) -> int | None:
        """Free slots; None if the number of slots is not given."""
        return max(0, self.slots - self.used) if self.slots else None

    def to_json(self) -> dict[str, Any]:
        """The flat object."""
        return self._flat(without=("kind",)) | {
            "place": self.place.removeprefix(f"{self.kind}:"),
            "launcher": self.kind,
            "slots": self.slots or None,
            "free": self.free,
            "gpus": self.gpus or None,
        }


@dataclass(frozen=True, slots=True)
class CampaignLine(_Line):
    """One campaign that has not ended or still has live runs."""

    name: str
    state: str
    reason: str = ""  # for it; where the campaign cannot be read, why
    interrupted: bool = False  # by a restart of this machine
    attempted: int = 0
    count: int | None = None  # ideas at most
    remaining: int | None = None  # ideas; None: no count
    deadline_s: float | None = None  # until its deadline
    best: str = ""
    best_name: str = ""
    best_index: int | None = None
    best_value: float | None = None
    best_label: str = ""  # how it stands: confirmed, kept; "" for the baseline
    metric_name: str = ""
    running: int = 0
    directory: str = ""
    next: tuple[str, ...] = ()  # the command that is likely to be needed

    def to_json(self) -> dict[str, Any]:
        """The flat object."""
        return {"campaign": self.name} | self._flat(without=("name", "best_name", "next"))


@dataclass(frozen=True, slots=True)
class Overview:
    """A snapshot of everything at one moment."""

    now: float  # wall clock
    runs: tuple[RunLine, ...] = ()  # live ones, and those that have just been recorded
    over: tuple[RunLine, ...] = ()  # recently ended ones, if requested
    places: tuple[PlaceLine, ...] = ()
    campaigns: tuple[CampaignLine, ...] = ()
    remarks: tuple[str, ...] = ()  # what could not be read


@dataclass(frozen=True, slots=True)
class OverviewFilter:
    """Which runs are shown; "" matches any."""

    target: str = ""  # a label, a target's name or a kind
    campaign: str = ""  # its name or a part of it
    states: frozenset[RunState] = frozenset()

    def shows(self, line: RunLine) -> bool:
        """Whether a run matches."""
        if self.target and self.target not in (line.place, line.kind, line.place.partition(":")[2]):
            return False
        if self.campaign and self.campaign not in line.campaign:
            return False
        return not self.states or line.state in self.states

    def of(self, lines: Iterable[RunLine]) -> list[RunLine]:
        """The matching live runs, in order."""
        return sorted(filter(self.shows, lines), key=_home)

    def of_ended(self, lines: Iterable[RunLine]) -> list[RunLine]:
        """The matching ended runs, in the given order; `states` is not applied."""
        return [line for line in lines if replace(self, states=frozenset()).shows(line)]


def short_campaign(name: str) -> str:
    """A campaign's name without its date."""
    date, _, rest = name.partition("-")
    return rest if rest and len(date) == 8 and date.isdecimal() else name


def place_lines(run_lines: Iterable[RunLine], known: Iterable[PlaceLine]) -> tuple[PlaceLine, ...]:
    """The targets with the counts of their runs added; `known`: the targets known apart from these runs."""
    lines = {line.place: line for line in known}
    for run in run_lines:
        line = lines.get(run.place) or PlaceLine(run.place, run.kind)
        silent = run.state is RunState.UNREACHABLE
        since = [at for at in (line.unreachable_since, run.since if silent else None) if at is not None]
        lines[run.place] = replace(
            line,
            used=line.used + run.state.lives,
            pending=line.pending + (run.state is RunState.PENDING),
            unreachable_since=min(since, default=None),
            reason=run.reason if silent else line.reason,
        )
    return tuple(lines[name] for name in sorted(lines, key=lambda name: (name != "local", name)))


def _home(line: RunLine) -> tuple[Any, ...]:
    return line.place != "local", line.place, line.campaign, line.created, line.run

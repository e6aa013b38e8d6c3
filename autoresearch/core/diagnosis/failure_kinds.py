"""Failure kinds: the classes of causes, and the table of what shows and what mends each: failures.yaml beside this.

The patterns match messages as torch, vLLM, SGLang, Ray, NCCL, Slurm, hydra and Python print them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache
from importlib import resources
from typing import Any

from autoresearch.core.text.regex import later

_PROXYCHAINS = "proxychains is installed: begin the command with `proxychains -q` where the host needs a proxy"
_OFFLINE = "HF_HUB_OFFLINE=1 once model and data are in the cache; HF_ENDPOINT for a mirror; http_proxy and https_proxy"


class Rank(IntEnum):
    """How well a line explains the end of a run; the lowest rank seen wins."""

    CERTAIN = 0  # a message that only this failure prints: out of memory, disk full, time limit
    STORM = 1  # the same traceback repeated with no step in between: the repetition matters more than its text
    EXCEPTION = 2  # a line, usually the last of a traceback, that names a cause: a missing module, a bad key
    NAN = 3  # not fatal by itself; the cause if none of the ranks above was seen
    SYMPTOM = 4  # something else died first: NCCL timeout, dead engine, dead actor, failed job
    ANY = 5  # an exception or fatal signal without its own class
    REPORT = 6  # only a report that something else failed


class FailureKind(StrEnum):
    """A class of causes; its value is written into the ledger."""

    CUDA_OOM = "cuda_oom"
    KV_CACHE = "kv_cache"
    HOST_OOM = "host_oom"
    DISK_FULL = "disk_full"
    GPU_SHORTAGE = "gpu_shortage"
    GPU_BUSY = "gpu_busy"
    GPU_FAULT = "gpu_fault"
    CUDA_ERROR = "cuda_error"
    PORT_TAKEN = "port_taken"
    SLURM_TIME_LIMIT = "slurm_time_limit"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    AUTH = "auth"
    RAY_UNREACHABLE = "ray_unreachable"
    CONFIG_ERROR = "config_error"
    IMPORT_ERROR = "import_error"
    MISSING_FILE = "missing_file"
    COMMAND_NOT_FOUND = "command_not_found"
    PERMISSION = "permission"
    NETWORK = "network"
    DIVERGED = "diverged"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_ERROR = "nccl_error"
    ENGINE_DEAD = "engine_dead"
    ROLLOUT_STALL = "rollout_stall"
    RAY_PENDING = "ray_pending"
    RAY_ACTOR_DIED = "ray_actor_died"
    RAY_JOB_FAILED = "ray_job_failed"
    SEGFAULT = "segfault"
    RETRY_STORM = "retry_storm"
    KILLED_BY_AUTOKILL = "killed_by_autokill"
    STALL = "stall"
    EVALUATION_FAILED = "evaluation_failed"
    METRIC_UNREAD = "metric_unread"
    NO_STEP = "no_step"
    ENDED_EARLY = "ended_early"
    LEFT_TRAINING = "left_training"
    PYTHON_ERROR = "python_error"

    @classmethod
    def _missing_(cls, value: object) -> FailureKind | None:
        return {"slurm_preempted": cls.PREEMPTED, "nan": cls.DIVERGED}.get(str(value))  # names in records of 2026


class FailurePolicy(StrEnum):
    """What a campaign may do after a failure of a class."""

    RETRY = "retry"  # the machine did it: the same again
    WAIT = "wait"  # something outside is busy or away: the same again, later
    SHRINK_BATCH = "shrink_batch"  # it did not fit: smaller, or on more memory
    STOP = "stop"  # the idea did it: that is its result
    ASK = "ask"  # only a person can mend it


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """One regular expression of the table. needle: a text that every matching line holds."""

    kind: FailureKind
    rank: Rank
    regex: re.Pattern[str]
    needle: str
    origin: str = ""  # "outside" or "report", see failures.yaml
    note: str = ""


@dataclass(frozen=True, slots=True)
class FailureTable:
    """The table of kinds, as failures.yaml states it."""

    kinds: Mapping[FailureKind, Mapping[str, Any]]
    patterns: tuple[FailurePattern, ...]
    needles: tuple[str, ...]  # every line that a pattern can match contains one of these
    examples: tuple[tuple[FailureKind, str], ...]

    def policy(self, failure_kind: FailureKind) -> FailurePolicy:
        """What a campaign may do after a failure of this kind."""
        return FailurePolicy(self.kinds[failure_kind]["policy"])

    def remedy(self, failure_kind: FailureKind) -> str:
        """One sentence: what to try."""
        return str(self.kinds[failure_kind]["remedy"])

    def suggestions(
        self, failure_kind: FailureKind, trainer: str = "", *, proxychains: bool = False
    ) -> tuple[str, ...]:
        """What to try, the most likely first. proxychains: whether that program is installed on this host."""
        about = self.kinds[failure_kind]
        network = (*((_PROXYCHAINS,) if proxychains else ()), _OFFLINE) if failure_kind is FailureKind.NETWORK else ()
        family = trainer.removesuffix("_swarm")
        trainers = about.get("trainers", {})
        own = trainers.get(trainer) or trainers.get(family) or ()
        if not own and family == "agentjet":  # AgentJet trains with verl
            own = trainers.get("verl", ())
        return (about["remedy"], *own, *network, *about.get("more", ()))

    def match(self, line: str) -> FailurePattern | None:
        """The first pattern that matches a line, stripped of colours and prefixes."""
        for pattern in self.patterns:
            if pattern.needle in line and pattern.regex.search(line):
                return pattern
        return None

    @property
    def certain_kinds(self) -> frozenset[FailureKind]:
        """Classes with messages that only they print."""
        return frozenset(pattern.kind for pattern in self.patterns if pattern.rank is Rank.CERTAIN)


@cache
def table() -> FailureTable:
    """The table, read once."""
    import yaml

    text = resources.files(__package__).joinpath("failures.yaml").read_text("utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    patterns = tuple(one for entry in data["patterns"] for one in _patterns(entry))
    own = {one.needle for one in patterns}
    common = tuple(data["needles"])
    rare = sorted(needle for needle in own if not any(part in needle for part in common))
    return FailureTable(
        {FailureKind(kind): about for kind, about in data["kinds"].items()},
        patterns,
        (*common, *rare),
        tuple((FailureKind(entry["kind"]), line) for entry in data["patterns"] for line in entry["examples"]),
    )


def _patterns(entry: Mapping[str, Any]) -> Iterator[FailurePattern]:
    kind, rank = FailureKind(entry["kind"]), Rank[entry["rank"].upper()]
    for line in entry["lines"]:
        regex = later(line.replace("^@", r"^(?:[A-Za-z_]\w*\.)*"))
        yield FailurePattern(kind, rank, regex, needle(line), entry.get("from", ""), entry.get("note", ""))


_TOKEN = re.compile(r"\\[bB]|\\[dDsSwWA-Z]|\\(.)|\[(?:\\.|[^\]\\])+\]|[.^$@]|([*?{]|\+)|(.)", re.DOTALL)


def needle(regex: str) -> str:
    """The longest text that every line that this regular expression matches contains.

    Only what stands outside of groups counts. It knows the syntax that failures.yaml uses, not all of `re`.
    Raises ValueError for a choice outside of groups.
    """
    runs: list[str] = []
    run, depth, at = "", 0, 0
    while at < len(regex):
        if regex[at] in "()":
            depth += 1 if regex[at] == "(" else -1
            runs, run, at = [*runs, run], "", at + 1
            continue
        if regex[at] == "|" and not depth:
            raise ValueError(f"a choice on the outermost level: {regex}")
        token = _TOKEN.match(regex, at)
        assert token is not None
        at = token.end()
        literal = str(token[1] or token[3] or "")
        if depth or token[0] in (r"\b", r"\B"):
            continue
        if literal:
            run += literal
            continue
        if token[2] and token[2] != "+":  # the character before may be missing
            run = run[:-1]
            at = regex.index("}", at) + 1 if token[2] == "{" else at
        runs, run = [*runs, run], ""
    return max((*runs, run), key=len)

"""Which of several processes printed a line of a log, and which process a line points at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autoresearch.core.text.lines import plain
from autoresearch.core.text.regex import later

_STAMP = later(  # of containers
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d) (?:stdout F |stderr F )?"
)
_TASK = later(r" {0,3}(\d{1,4}): ")  # srun --label
_LABEL = later(
    r"\[(?:rank|default)(?P<rank>\d{1,5})\]:"
    r"|\((?:(?P<name>[A-Za-z_][^()\n]{0,120}) )?pid=(?P<pid>\d{1,10})(?:, ip=[^()\n]{1,60})?\)"
)
_POINTERS = (
    later(r"ray::[^(\n]{1,200}\([^)\n]{0,40}\) \(pid=(?P<pids>\d{1,10})"),
    later(r"^ray::\S{1,200} \(pid=(?P<pids>\d{1,10})"),
    later(r"^pid: (?P<pids>\d{1,10})$"),  # of an ActorDiedError
    later(r"\bWorker PID: (?P<pids>\d{1,10})"),
    later(r"DataLoader worker \(pid(?:\(s\))? (?P<pids>\d[\d, ]{0,200})\)"),
    later(r"exitcode\s{0,4}: -?\d{1,3} {1,2}\(pid: (?P<pids>\d{1,10})\)"),  # torchrun's table of failures
    later(r"^rank\s{1,8}: (?P<rank>\d{1,5}) \(local_rank"),
    later(r"\(pid: (?P<pids>\d{1,10})\) of binary"),
)


@dataclass(frozen=True, slots=True)
class LogProcess:
    """A process as its lines are labelled; one without a label is the program itself, or one of several that mix."""

    name: str = ""
    pid: int = 0
    rank: int = -1

    def __str__(self) -> str:
        if self.pid:
            return f"{self.name} pid={self.pid}".strip()
        return f"rank {self.rank}" if self.rank >= 0 else ""


PLAIN = LogProcess()


def split(raw: str) -> tuple[LogProcess, str]:
    """The process that printed a line, by the last of its labels, and the line without labels and colours."""
    stamp = _STAMP.match(raw)
    text = plain(raw[stamp.end() :] if stamp else raw)
    process = PLAIN
    if "pid=" in raw[:200] or "[rank" in raw[:60] or "[default" in raw[:60]:
        own = raw.find(text[:40]) if text else len(raw)
        for label in _LABEL.finditer(raw, 0, own if own >= 0 else 200):
            if label["rank"]:
                process = LogProcess(rank=int(label["rank"]))
            else:
                process = LogProcess((label["name"] or "").partition("[")[0].strip(), int(label["pid"]))
    elif (task := _TASK.match(text)) and len(text) > task.end():
        return LogProcess(rank=int(task[1])), text[task.end() :]
    return process, text


def pointers(line: str) -> Iterator[LogProcess]:
    """The processes, by pid or rank alone, that a stripped line names as those that failed."""
    if "pid" not in line and "PID" not in line and "rank" not in line:
        return
    for pattern in _POINTERS:
        if match := pattern.search(line):
            groups = match.groupdict()
            if groups.get("rank"):
                yield LogProcess(rank=int(groups["rank"]))
            for pid in (groups.get("pids") or "").replace(",", " ").split():
                yield LogProcess(pid=int(pid))
            return

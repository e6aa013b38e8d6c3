"""Evals of the skill: tasks for a coding agent, checks of an attempt, and the score of several attempts.

A task is one of `evals/evals.json` as agentskills/agentskills has it (46b15ff, docs/skill-creation/
evaluating-skills.mdx): id, prompt, expected_output, files, assertions. Ours have three more keys: `name`; `setup`,
command lines that are run before the agent starts; and `checks`, one for each assertion, null for an assertion that
only a reader can judge:

    {"called": REGEX}   {"never": REGEX}     a command that was run: "autoresearch run a.md --detach", "sleep 3"
    {"file": GLOB, "holds": REGEX}           a file of the project; `holds` may be left out
    {"unchanged": PATH}                      a file of the task, unchanged
    {"row": {COLUMN: REGEX}, "times": N}     rows of the ledger; once without `times`; 0 for none
    {"says": REGEX}                          the agent's final message
    {"skill": true}                          whether it read the skill
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

WITH, WITHOUT = "with_skill", "without_skill"
KINDS = ("called", "never", "file", "unchanged", "row", "says", "skill")
_MORE = {"file": {"holds"}, "row": {"times"}}

Check = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EvalTask:
    """A task for an agent, and what must hold afterwards."""

    id: int
    name: str
    prompt: str
    expected_output: str = ""
    files: tuple[str, ...] = ()  # below the skill's directory
    setup: tuple[str, ...] = ()
    assertions: tuple[tuple[str, Check | None], ...] = ()


@dataclass(frozen=True, slots=True)
class EvalEvidence:
    """The observable result of an attempt. Except for `answer`, nothing in it relies on what the agent reports."""

    calls: tuple[str, ...] = ()  # command lines, in order
    files: Mapping[str, str] = field(default_factory=dict)  # path in the project -> text
    files_before: Mapping[str, str] = field(default_factory=dict)  # the same before the attempt
    rows: tuple[Mapping[str, str], ...] = ()  # of the project's ledgers
    answer: str = ""
    read_skill: bool | None = None  # None: it had no skill


@dataclass(frozen=True, slots=True)
class Graded:
    """One assertion: whether it holds (None: only a reader can judge it), and the evidence."""

    text: str
    passed: bool | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Score:
    """One attempt, as `benchmark` counts it."""

    task: str
    variant: str
    passed: int
    total: int
    seconds: float
    tokens: int | None
    fault: str = ""
    triggered: bool | None = None  # the skill was read exactly when it should be; None: it had none

    @property
    def rate(self) -> float:
        """The part of its checked assertions that hold."""
        return self.passed / self.total if self.total else 0.0


def tasks_from(document: Any) -> list[EvalTask]:
    """The tasks of an `evals.json`. ValueError says what is wrong with one."""
    entries = document.get("evals") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise ValueError("there is no list `evals`")
    tasks = [_task(each) for each in entries]
    for name in ("id", "name"):
        values = [getattr(task, name) for task in tasks]
        if len(set(values)) != len(values):
            raise ValueError(f"two evals have the same {name}")
    return tasks


def triggers_from(document: Any) -> list[EvalTask]:
    """Tasks from an `eval_queries.json`, a list of `{query, should_trigger}`, that check whether the skill is read."""
    if not isinstance(document, list):
        raise ValueError("it is no list of queries")
    tasks = []
    for number, each in enumerate(document, 1):
        should = each["should_trigger"] is True
        text = f"the skill is {'read' if should else 'left alone'}"
        tasks.append(EvalTask(number, f"trigger-{number}", str(each["query"]), assertions=((text, {"skill": should}),)))
    return tasks


def _task(value: Any) -> EvalTask:
    try:
        identity, prompt, texts = value["id"], str(value["prompt"]), [str(each) for each in value["assertions"]]
    except (TypeError, KeyError) as error:
        raise ValueError(f"an eval lacks {error}") from None
    name = str(value.get("name") or identity)
    checks = value.get("checks") or [None] * len(texts)
    if not isinstance(identity, int) or len(checks) != len(texts):
        raise ValueError(f"eval {name}: id is a number, and there is a check (or null) for each assertion")
    for check in checks:
        if check is not None and (fault := _fault(check)):
            raise ValueError(f"eval {name}: {fault}: {check}")
    return EvalTask(
        identity,
        name,
        prompt,
        str(value.get("expected_output", "")),
        tuple(map(str, value.get("files", ()))),
        tuple(map(str, value.get("setup", ()))),
        tuple(zip(texts, checks, strict=True)),
    )


def _fault(check: Any) -> str:
    if not isinstance(check, Mapping) or len(kinds := check.keys() & set(KINDS)) != 1:
        return f"a check has one of {', '.join(KINDS)}"
    kind = kinds.pop()
    if check.keys() - {kind} - _MORE.get(kind, set()):
        return "it holds a key that is not known"
    patterns = list(check["row"].values()) if kind == "row" else [check.get("holds", "")]
    patterns += [check[kind]] if kind in ("called", "never", "says") else []
    try:
        for pattern in patterns:
            re.compile(str(pattern))
    except re.error as error:
        return f"no regular expression ({error})"
    return ""


def grade(eval_task: EvalTask, work: EvalEvidence) -> list[Graded]:
    """Check each assertion of a task against the result of an attempt."""
    return [
        Graded(text, None, "for a reader to tell") if check is None else Graded(text, *_graded(check, work))
        for text, check in eval_task.assertions
    ]


def counted(eval_task: EvalTask, graded: Sequence[Graded]) -> tuple[list[bool], bool | None]:
    """The results that count for the pass rate, and whether the skill was read as it should be (None: there was none).

    Reading the skill counts for the pass rate only in tasks that check nothing else (`triggers_from`): an agent
    without the skill cannot read it, so the skill would improve the rate by definition.
    """
    pairs = [(check, each.passed) for (_, check), each in zip(eval_task.assertions, graded, strict=True)]
    known = [(check, passed) for check, passed in pairs if check is not None and passed is not None]
    read = [passed for check, passed in known if "skill" in check]
    return [passed for check, passed in known if "skill" not in check] or read, all(read) if read else None


def _graded(check: Check, work: EvalEvidence) -> tuple[bool | None, str]:
    match check:
        case {"called": pattern}:
            lines = [line for line in work.calls if re.search(pattern, line)]
            return bool(lines), _shown("typed", lines, work.calls)
        case {"never": pattern}:
            lines = [line for line in work.calls if re.search(pattern, line)]
            return not lines, _shown("typed", lines, ())
        case {"file": glob}:
            paths = [path for path in work.files if fnmatchcase(path, glob)]
            held = [path for path in paths if re.search(check.get("holds", ""), work.files[path])]
            return bool(held), _shown("found", held, paths)
        case {"unchanged": path}:
            same = path in work.files_before and work.files.get(path) == work.files_before[path]
            return same, f"{path} is {'as it was' if same else 'changed, or gone'}"
        case {"row": columns}:
            fits = [row for row in work.rows if _fits(row, columns)]
            times = check.get("times")
            shown = f"{len(fits)} of {len(work.rows)} rows fit"
            return (bool(fits) if times is None else len(fits) == times), shown
        case {"says": pattern}:
            match = re.search(pattern, work.answer)
            return bool(match), f"it said {match[0][:100]!r}" if match else "its last words do not"
        case {"skill": _} if work.read_skill is None:
            return None, "it was given none"
        case {"skill": expected}:
            read = "yes" if work.read_skill else "no"
            return work.read_skill is bool(expected), f"it read the skill: {read}"
    raise ValueError(f"no such check: {check}")


def _fits(row: Mapping[str, str], columns: Mapping[str, str]) -> bool:
    return all(re.search(pattern, row.get(name, "")) for name, pattern in columns.items())


def _shown(word: str, matches: Sequence[str], others: Sequence[str]) -> str:
    if matches:
        return f"{word}: {matches[0][:160]}" + (f" (and {len(matches) - 1} more)" if len(matches) > 1 else "")
    return f"nothing fits; {len(others)} others, the last: {others[-1][:160]}" if others else "nothing fits"


def benchmark(scores: Iterable[Score]) -> dict[str, Any]:
    """`run_summary` of a benchmark.json: mean and deviation of each variant, and what the skill adds."""
    listed = list(scores)
    summary: dict[str, Any] = {}
    for variant in (WITH, WITHOUT):
        if mine := [score for score in listed if score.variant == variant]:
            summary[variant] = _summary(mine)
    if len(summary) == 2:
        summary["delta"] = {
            key: round(summary[WITH][key]["mean"] - summary[WITHOUT][key]["mean"], 4)
            for key in ("pass_rate", "time_seconds", "tokens")
            if summary[WITH][key] and summary[WITHOUT][key]
        }
    return {"run_summary": summary, "attempts": len(listed), "faults": sum(bool(score.fault) for score in listed)}


def _summary(scores: Sequence[Score]) -> dict[str, Any]:
    values = {
        "pass_rate": [score.rate for score in scores],
        "time_seconds": [score.seconds for score in scores],
        "tokens": [float(score.tokens) for score in scores if score.tokens is not None],
    }
    spreads: dict[str, Any] = {key: _spread(numbers) for key, numbers in values.items()}
    right = [float(score.triggered) for score in scores if score.triggered is not None]
    return {**spreads, "triggered_rightly": round(statistics.fmean(right), 4) if right else None}


def _spread(numbers: Sequence[float]) -> dict[str, float] | None:
    if not numbers:
        return None
    return {"mean": round(statistics.fmean(numbers), 4), "stddev": round(statistics.pstdev(numbers), 4)}

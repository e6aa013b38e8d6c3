"""What the scripted model answers: rules from the latest user turn to steps, one step per request.

A step is a dict with one of these keys:

    {"read": PATH}                                        {"shell": COMMAND}
    {"edit": {"path": P, "old": TEXT, "new": TEXT}}       {"mcp": {"server": S, "tool": T, "arguments": {...}}}
    {"write": {"path": P, "text": TEXT}}                  {"tool": {"name": N, "arguments": {...}}}   (as it is)
    {"json": VALUE}                                       {"text": TEXT}
    {"http": STATUS, "message": TEXT}

Paths may be relative to the directory that the agent works in, and `{cwd}` in any text becomes it. Claude Code edits
no file that it has not read: put a `read` before an `edit`, or a `write` of a file that exists. aider and Codex
replace whole lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = Mapping[str, Any]
CALLS = ("read", "edit", "write", "shell", "mcp", "tool")
SAYS = ("json", "text")
FAULTS = ("http",)  # these yield no answer: the client asks the same again, if anything
DONE: Step = {"text": "done"}


def kind(step: Step) -> str:
    """Which of the keys above a step has."""
    found = [key for key in (*CALLS, *SAYS, *FAULTS) if key in step]
    if len(found) != 1:
        raise ValueError(f"a step has exactly one of {', '.join((*CALLS, *SAYS, *FAULTS))}: {dict(step)}")
    return found[0]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model, in no dialect."""

    dialect: str
    text: str  # the latest user turn: the latest message of a user that holds no tool's result
    place: int  # of that message among all of them; tells turns of one session apart
    calls: tuple[str, ...]  # names of the tools called since then
    result: str  # the latest tool's result since then
    tools: Mapping[str, Mapping[str, Any]]  # name -> JSON schema of its arguments
    prose: str  # all text that the request holds, for what is written somewhere in it
    model: str
    stream: bool
    namespaces: Mapping[str, str] = field(default_factory=dict)  # tool -> Codex's namespace of it

    @property
    def cwd(self) -> str:
        """The directory that the agent says it works in; "" if it does not."""
        found = _CWD.findall(self.prose)
        return str(next(filter(None, found[-1]))).rstrip("/.`") if found else ""

    @property
    def steps(self) -> int:
        """How many steps of a script were done in this turn: its calls, but for those that no script asked for."""
        return sum(name not in _UNASKED for name in self.calls)

    @property
    def in_blocks(self) -> bool:
        """Whether edits are wanted as aider's SEARCH/REPLACE blocks: it knows no tools."""
        return not self.tools and "*SEARCH/REPLACE" in self.prose

    @property
    def running(self) -> int | None:
        """Codex's number of a command that runs still; it is looked after before the next step."""
        found = _RUNNING.search(self.result) if "write_stdin" in self.tools else None
        return int(found[1]) if found else None


SEARCHES = ("tool_search", "ToolSearch")  # for tools that are there but not yet offered
_UNASKED = frozenset({"write_stdin", *SEARCHES})
_RUNNING = re.compile(r"Process running with session ID (\d+)")
_CWD = re.compile(
    r"<cwd>([^<\n]+)</cwd>"
    r"|[Ww]orking directory(?: is)?: `?(/[^\s`<]*)"
    r"|working in the directory: (/[^\s<]*)"
    r"|^Workspace(?: Directories)?:?\**\s*(?:- )?(/[^\s<]*)",
    re.MULTILINE,
)
Flow = Generator[Step, Asked, None]
Answers = Callable[[Asked], "Sequence[Step] | Flow | None"]


@dataclass(slots=True)
class Rule:
    """Steps for the user turns that it matches; `times` is how many turns it is good for, None any number."""

    match: str = ""  # a substring of the turn; "" is every turn
    steps: Sequence[Step] = ()
    times: int | None = None
    dialect: str = ""  # only requests in this one
    bare: bool = False  # also answers requests that offer no tools (else those get "ok")
    name: str = ""
    answers: Answers | None = None  # in-process: makes the steps, all at once or one by one (it is sent what
    # was asked next, with the result of the step), or None to let the next rule answer

    def __post_init__(self) -> None:
        for step in self.steps:
            kind(step)

    def steps_for(self, asked: Asked) -> Sequence[Step] | Flow | None:
        """The steps, if it matches."""
        if self.times == 0 or self.dialect not in ("", asked.dialect):
            return None
        if not (asked.tools or asked.in_blocks or self.bare):
            return None
        if self.match not in asked.text:
            return None
        return self.answers(asked) if self.answers else self.steps


@dataclass(slots=True)
class _Turn:
    """A user turn that is being answered."""

    rule: str
    steps: list[Step]
    flow: Flow | None = None  # makes further steps
    faults: int = 0  # steps that were over without an answer
    repeated: int = 0  # how often the fault at hand was given

    def step(self, asked: Asked) -> Step:
        at = asked.steps + self.faults
        if self.flow is not None and at == len(self.steps):
            try:
                self.steps.append(self.flow.send(asked) if self.steps else next(self.flow))
            except StopIteration:
                self.flow = None
        if at >= len(self.steps):
            return self.steps[-1] if self.steps and kind(self.steps[-1]) in FAULTS else DONE
        step = self.steps[at]
        if kind(step) in FAULTS:
            self.repeated += 1
            if self.repeated >= step.get("times", 1):
                self.faults, self.repeated = self.faults + 1, 0
        return step

    def awaits(self) -> bool:
        """Whether the latest step was a fault and the same question has a further answer."""
        return bool(self.faults or self.repeated) and self.faults < len(self.steps)


class Script:
    """The rules, the first that matches wins, and the turns that are being answered."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = list(rules)
        self._turns: dict[tuple[str, int, str], _Turn] = {}

    def step(self, asked: Asked) -> tuple[str, Step, Sequence[Step]]:
        """The rule's name, the step that is due, and all steps of this turn ("", ok, () where no rule matches).

        A turn keeps the rule that its first request chose; a request again after a fault goes on behind the fault.
        """
        key = (asked.dialect, asked.place, asked.text)
        turn = self._turns.get(key)
        if turn is None or not (asked.steps or turn.awaits()):
            turn = self._turns[key] = self._choose(asked)
        if not turn.rule:
            return "", {"text": "ok"}, ()
        if asked.running is not None:
            patience = {"session_id": asked.running, "chars": "", "yield_time_ms": 30000}
            return turn.rule, {"tool": {"name": "write_stdin", "arguments": patience}}, ()
        return turn.rule, turn.step(asked), turn.steps

    def _choose(self, asked: Asked) -> _Turn:
        for number, rule in enumerate(self.rules):
            steps = rule.steps_for(asked)
            if steps is not None:
                if rule.times is not None:
                    rule.times -= 1
                name = rule.name or f"rule {number}"
                return _Turn(name, [], steps) if isinstance(steps, Generator) else _Turn(name, [*steps])
        return _Turn("", [])

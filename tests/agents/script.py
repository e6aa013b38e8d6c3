"""What the scripted model answers: rules from the latest user turn to steps, one step per request.

A step is a dict with one of these keys:

    {"read": PATH}                                        {"shell": COMMAND}
    {"edit": {"path": P, "old": TEXT, "new": TEXT}}       {"mcp": {"server": S, "tool": T, "arguments": {...}}}
    {"write": {"path": P, "text": TEXT}}                  {"tool": {"name": N, "arguments": {...}}}   (as it is)
    {"json": VALUE}   structured output, or text          {"text": TEXT}
    {"http": STATUS, "headers": {...}, "message": TEXT}   {"hang": true}   until `ModelServer.release`
    {"flood": BYTES}  so many bytes of text               {"close": true}  the connection, without a word

`"usage": {"in": N, "out": N}` beside any of them sets the tokens that the answer claims. Paths may be relative to
the directory that the agent works in, and `{cwd}` in any text becomes it. Claude Code edits no file that it has
not read: put a `read` before an `edit`, or a `write` of a file that exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = Mapping[str, Any]
CALLS = ("read", "edit", "write", "shell", "mcp", "tool")
SAYS = ("json", "text", "flood")
FAULTS = ("http", "hang", "close")  # these yield no answer: the client asks the same again, if anything
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
    def in_blocks(self) -> bool:
        """Whether edits are wanted as aider's SEARCH/REPLACE blocks: it knows no tools."""
        return not self.tools and "*SEARCH/REPLACE" in self.prose


_CWD = re.compile(
    r"<cwd>([^<\n]+)</cwd>"
    r"|[Ww]orking directory(?: is)?: `?(/[^\s`<]*)"
    r"|working in the directory: (/[^\s<]*)"
    r"|^Workspace(?: Directories)?:?\**\s*(?:- )?(/[^\s<]*)",
    re.MULTILINE,
)
Answers = Callable[[Asked], "Sequence[Step] | None"]


@dataclass(slots=True)
class Rule:
    """Steps for the user turns that it matches; `times` is how many turns it is good for, None any number."""

    match: str = ""  # a substring of the turn; "" is every turn
    steps: Sequence[Step] = ()
    regex: str = ""  # instead of `match`
    times: int | None = None
    dialect: str = ""  # only requests in this one
    bare: bool = False  # also answers requests that offer no tools (else those get "ok")
    name: str = ""
    answers: Answers | None = None  # in-process: makes the steps, or None to let the next rule answer

    def __post_init__(self) -> None:
        for step in self.steps:
            kind(step)

    def steps_for(self, asked: Asked) -> Sequence[Step] | None:
        """The steps, if it matches."""
        if self.times == 0 or self.dialect not in ("", asked.dialect):
            return None
        if not (asked.tools or asked.in_blocks or self.bare):
            return None
        if not (re.search(self.regex, asked.text, re.DOTALL) if self.regex else self.match in asked.text):
            return None
        return self.answers(asked) if self.answers else self.steps


@dataclass(slots=True)
class _Turn:
    """A user turn that is being answered."""

    rule: str
    steps: Sequence[Step]
    faults: int = 0  # steps that were over without an answer
    repeated: int = 0  # how often the fault at hand was given

    def step(self, calls: int) -> Step:
        at = calls + self.faults
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
        calls = sum(name not in POLLS for name in asked.calls)
        if turn is None or not (calls or turn.awaits()):
            turn = self._turns[key] = self._choose(asked)
        if not turn.rule:
            return "", {"text": "ok"}, ()
        return turn.rule, turn.step(calls), turn.steps

    def _choose(self, asked: Asked) -> _Turn:
        for number, rule in enumerate(self.rules):
            steps = rule.steps_for(asked)
            if steps is not None:
                if rule.times is not None:
                    rule.times -= 1
                return _Turn(rule.name or f"rule {number}", [*steps])
        return _Turn("", ())


POLLS = frozenset({"write_stdin"})  # Codex looks after a command that still runs; no step of a script


def rule_from(data: Mapping[str, Any]) -> Rule:
    """A rule as JSON has it.

    Raises:
        ValueError: it has a key, or a step, that is none.
    """
    wrong = set(data) - {"match", "steps", "regex", "times", "dialect", "bare", "name"}
    if wrong:
        raise ValueError(f"no such key in a rule: {', '.join(sorted(wrong))}")
    return Rule(**data)

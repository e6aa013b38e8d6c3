"""StagedPlan: the order of experiments and the meaning of each outcome, fixed before any of them runs.

A plan is a list of stages; each is one campaign with an expectation that can fail, and outcomes. The first outcome
whose condition holds gives the conclusion and the next step: another stage, `revise` (a person or an agent writes a
new version) or `end`. The last outcome is `otherwise`, so that every possible result has a next step. Stages, outcomes
written down before the experiments, expectation against result and plan_v2 follow the workflow of the leader skill in
binary-husky/Alpha-RL-Research @a220a1b; what that skill asks the agent to do, the harness enforces.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.plans.condition import Condition, ConditionError, parse

END, REVISE, OTHERWISE = "end", "revise", "otherwise"
MOST_STAGES = 20
MOST_OUTCOMES = 20
MOST_RUNS = 20
MOST_CHARACTERS = 4000  # of any text in a plan
SLUG_MAX = 20  # of a plan's slug, and
STAGE_MAX = 16  # of a stage's name: together with the number of the repetition they name a campaign
_STAGE = re.compile(rf"[a-z0-9](?:[a-z0-9-]{{0,{STAGE_MAX - 2}}}[a-z0-9])?\Z")
_KEYS = ("title", "question", "topic", "stages")
_STAGE_KEYS = ("name", "question", "campaign", "ideas", "expectation", "outcomes", "most_runs")
_EXPECTATION_KEYS = ("sentence", "when")
_OUTCOME_KEYS = ("when", "conclusion", "next")

KeyPath: TypeAlias = tuple[str | int, ...]
"""The location of a value in a plan: keys and indices from the top, such as `("stages", 0, "name")`."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a stage is expected to show, in words and as a condition that can fail."""

    sentence: str
    when: Condition


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """One possible outcome of a stage; `when` is None for `otherwise`."""

    when: Condition | None
    conclusion: str
    next: str  # a stage, END or REVISE

    @property
    def condition(self) -> str:
        """The text of the condition, or `otherwise`."""
        return self.when.text if self.when else OTHERWISE


@dataclass(frozen=True, slots=True)
class Stage:
    """One campaign of a plan."""

    name: str
    question: str
    campaign: Mapping[str, Any]  # keys of a campaign file; `file` names a file whose keys these override
    ideas: tuple[Any, ...]  # entries of a queue, tried in this order
    expectation: Expectation
    outcomes: tuple[StageOutcome, ...]  # the last one is `otherwise`
    most_runs: int = 1  # how often the plan may run it

    def outcome(self, facts: Mapping[str, float | None]) -> int:
        """Index of the first outcome whose condition holds; an undecided condition does not hold."""
        holding = (n for n, outcome in enumerate(self.outcomes) if outcome.when is None or outcome.when.holds(facts))
        return next(holding)


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """A valid plan."""

    title: str
    question: str
    topic: str  # the file with the question that it answers, relative to the plan; "" for none
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage | None:
        """The stage of that name; None if there is none."""
        return next((stage for stage in self.stages if stage.name == name), None)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The result of reading a plan; `plan` is None if any finding is an error."""

    plan: StagedPlan | None
    findings: tuple[Finding, ...]


def read_plan(value: object, lines: Mapping[KeyPath, int] | None = None, where: str = "") -> ReadPlan:
    """Validate a parsed YAML document; `lines`: the line number of each key, for the findings in file `where`."""
    reader = _PlanReader(lines or {}, where)
    plan = reader.plan(value)
    if plan is not None:
        reader.connected(plan)
    bad = any(finding.severity is Severity.ERROR for finding in reader.findings)
    return ReadPlan(None if bad else plan, tuple(sorted(reader.findings, key=lambda f: f.line)))


class _PlanReader:
    """Reads one plan; continues after an error, so that all are reported at once."""

    def __init__(self, lines: Mapping[KeyPath, int], where: str) -> None:
        self.lines, self.where = lines, where
        self.findings: list[Finding] = []

    def wrong(self, key_path: KeyPath, message: str, hint: str = "", *, severity: Severity = Severity.ERROR) -> None:
        line = next((self.lines[key_path[:n]] for n in range(len(key_path), -1, -1) if key_path[:n] in self.lines), 0)
        words = f"{_spoken(key_path)}: {message}" if key_path else message
        self.findings.append(Finding(severity, "bad_plan", words, hint, self.where, line))

    def mapping(self, value: object, key_path: KeyPath, keys: Sequence[str]) -> Mapping[Any, Any]:
        if not isinstance(value, Mapping):
            self.wrong(key_path, f"expected the keys {', '.join(keys)}, found {_kind(value)}")
            return {}
        for key in value:
            if key not in keys:
                near = difflib.get_close_matches(str(key), keys, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(keys)}"
                self.wrong((*key_path, str(key)), f"unknown key `{key}`", hint)
        return value

    def text(self, holder: Mapping[Any, Any], key_path: KeyPath, key: str) -> str:
        value = holder.get(key)
        if not isinstance(value, str) or not value.strip():
            what = "is missing" if value in (None, "") else f"is {_kind(value)}, not a sentence"
            self.wrong((*key_path, key), what)
        elif value.strip().startswith("TODO"):
            self.wrong((*key_path, key), "still has the words of the template", "write what is meant")
        elif len(value) > MOST_CHARACTERS:
            self.wrong((*key_path, key), f"has {len(value)} characters; {MOST_CHARACTERS} are enough")
        else:
            return value.strip()
        return ""

    def listed(self, holder: Mapping[Any, Any], key_path: KeyPath, key: str, most: int) -> list[Any]:
        value = holder.get(key)
        if not isinstance(value, list) or not value:
            self.wrong((*key_path, key), "is missing" if value in (None, []) else f"is {_kind(value)}, not a list")
            return []
        if len(value) > most:
            self.wrong((*key_path, key), f"{len(value)} are too many; {most} at most")
        return value[:most]

    def plan(self, value: object) -> StagedPlan | None:
        if not isinstance(value, Mapping) or not value:
            self.wrong((), f"expected the keys {', '.join(_KEYS)}, found {_kind(value)}")
            return None
        top = self.mapping(value, (), _KEYS)
        title, question = self.text(top, (), "title"), self.text(top, (), "question")
        topic = self.text(top, (), "topic") if top.get("topic") is not None else ""
        stages = self.listed(top, (), "stages", MOST_STAGES)
        return StagedPlan(title, question, topic, tuple(self.stage(one, n) for n, one in enumerate(stages)))

    def stage(self, value: object, n: int) -> Stage:
        key_path: KeyPath = ("stages", n)
        entry = self.mapping(value, key_path, _STAGE_KEYS)
        name = entry.get("name")
        if not isinstance(name, str) or not _STAGE.match(name):
            hint = f"lower-case letters, digits and hyphens, at most {STAGE_MAX}: it names branches"
            self.wrong((*key_path, "name"), f"{name!r} cannot name a stage" if name else "is missing", hint)
        elif name in (END, REVISE, OTHERWISE):
            self.wrong((*key_path, "name"), f"`{name}` is a word of the plan itself")
        most = entry.get("most_runs", 1)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_RUNS:
            self.wrong((*key_path, "most_runs"), f"{most!r} is not a whole number from 1 to {MOST_RUNS}")
            most = 1
        ideas = entry.get("ideas") or []
        if not isinstance(ideas, list):
            self.wrong((*key_path, "ideas"), f"is {_kind(ideas)}, not a list of ideas")
            ideas = []
        slugs = {str(idea.get("slug")) for idea in ideas if isinstance(idea, Mapping)}
        return Stage(
            name=str(name),
            question=self.text(entry, key_path, "question"),
            campaign=self.campaign(entry.get("campaign"), (*key_path, "campaign")),
            ideas=tuple(ideas),
            expectation=self.expectation(entry.get("expectation"), (*key_path, "expectation"), slugs),
            outcomes=self.outcomes(entry, key_path, slugs),
            most_runs=most,
        )

    def campaign(self, value: object, key_path: KeyPath) -> Mapping[str, Any]:
        if isinstance(value, str) and value.strip():
            return {"file": value.strip()}
        if isinstance(value, Mapping) and isinstance(value.get("file") or value.get("blueprint"), str):
            return {str(key): item for key, item in value.items()}
        hint = "`campaign: {blueprint: my-experiment.md, count: 6}`, or the name of a campaign file"
        self.wrong(key_path, "is missing" if value is None else "names neither a blueprint nor a campaign file", hint)
        return {}

    def expectation(self, value: object, key_path: KeyPath, slugs: set[str]) -> Expectation:
        entry = self.mapping(value, key_path, _EXPECTATION_KEYS) if value is not None else {}
        if value is None:
            self.wrong(key_path, "is missing", "what do you expect? `{sentence: ..., when: best >= baseline + 0.02}`")
            return Expectation("", _NOTHING)
        return Expectation(self.text(entry, key_path, "sentence"), self.condition(entry, key_path, slugs) or _NOTHING)

    def condition(self, holder: Mapping[Any, Any], key_path: KeyPath, slugs: set[str]) -> Condition | None:
        value = holder.get("when")
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
            self.wrong((*key_path, "when"), "is missing" if value in (None, "") else f"is {_kind(value)}, no condition")
            return None
        try:
            condition = parse(str(value))
        except ConditionError as error:
            self.wrong((*key_path, "when"), str(error))
            return None
        if strange := [slug for slug in condition.slugs if slug not in slugs]:
            hint = f"the ideas of this stage: {', '.join(sorted(slugs))}" if slugs else "this stage lists no `ideas`"
            self.wrong((*key_path, "when"), f"no idea of this stage has the slug `{strange[0]}`", hint)
        return condition

    def outcomes(self, holder: Mapping[Any, Any], stage: KeyPath, slugs: set[str]) -> tuple[StageOutcome, ...]:
        listed = self.listed(holder, stage, "outcomes", MOST_OUTCOMES)
        outcomes: list[StageOutcome] = []
        for n, value in enumerate(listed):
            key_path = (*stage, "outcomes", n)
            one = self.mapping(value, key_path, _OUTCOME_KEYS)
            last = one.get("when") == OTHERWISE
            if last and n < len(listed) - 1:
                self.wrong((*key_path, "when"), f"`{OTHERWISE}` comes last: nothing after it can happen")
            when = None if last else self.condition(one, key_path, slugs)
            if when and when.text in [earlier.condition for earlier in outcomes]:
                self.wrong((*key_path, "when"), f"`{when.text}` was asked before: this cannot happen")
            conclusion, following = self.text(one, key_path, "conclusion"), self.text(one, key_path, "next")
            outcomes.append(StageOutcome(when, conclusion, following))
        if listed and not (isinstance(listed[-1], Mapping) and listed[-1].get("when") == OTHERWISE):
            hint = f"end the list with `- {{when: {OTHERWISE}, conclusion: ..., next: {REVISE}}}`"
            self.wrong((*stage, "outcomes"), "not every result leads somewhere", hint)
        return tuple(outcomes)

    def connected(self, plan: StagedPlan) -> None:
        """Check the next steps: they name existing stages, every cycle is bounded, every stage is reachable."""
        names = [stage.name for stage in plan.stages]
        for n, name in enumerate(names):
            if name in names[:n]:
                self.wrong(("stages", n, "name"), f"two stages are called `{name}`")
        leads = {stage.name: {outcome.next for outcome in stage.outcomes} & set(names) for stage in plan.stages}
        for n, stage in enumerate(plan.stages):
            for m, outcome in enumerate(stage.outcomes):
                self.step((("stages", n, "outcomes", m, "next")), stage, outcome, plan, leads)
        reached = _reached(names[:1], leads)
        for n, name in enumerate(names):
            if name not in reached:
                key_path: KeyPath = ("stages", n)
                self.wrong(key_path, f"no outcome leads to the stage `{name}`", severity=Severity.WARNING)

    def step(
        self,
        key_path: KeyPath,
        stage: Stage,
        stage_outcome: StageOutcome,
        plan: StagedPlan,
        leads: Mapping[str, set[str]],
    ) -> None:
        if stage_outcome.next in ("", END, REVISE):
            return
        target = plan.stage(stage_outcome.next)
        if target is None:
            known = [*leads, END, REVISE]
            near = difflib.get_close_matches(stage_outcome.next, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
            self.wrong(key_path, f"there is no stage `{stage_outcome.next}`", hint)
        elif target.most_runs == 1 and stage.name in _reached([target.name], leads):
            message = f"leads back to `{target.name}`, which may run once"
            self.wrong(key_path, message, f"say how often in `{target.name}`: `most_runs: 2`")


_NOTHING = parse("kept")  # placeholder for an invalid condition; a plan with one is never used


def _reached(begin: Sequence[str], leads: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    left = list(begin)
    while left:
        if (name := left.pop()) not in reached:
            reached.add(name)
            left += leads.get(name, ())
    return reached


def _spoken(key_path: KeyPath) -> str:
    """A key path in the form `stages[0].outcomes[1].next`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path).lstrip(".")


def _kind(value: object) -> str:
    words = {str: "text", list: "a list", dict: "a mapping", bool: "true or false", type(None): "nothing"}
    return words.get(type(value), "a number")

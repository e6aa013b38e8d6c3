"""Proposals: parse and check an agent's answer to a request for hypotheses.

Every problem is one sentence with its location (`hypotheses[1].slug: ...`); the agent is asked again with these
sentences. Free text is accepted as it is and cut; a value that decides what would be run is never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from autoresearch.core.campaign import overrides
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.text.branch_and_run_names import SLUG_MAX
from autoresearch.core.text.regex import later

# The schema is in a form that every agent accepts. Codex passes it on as OpenAI's strict structured output, where every
# object must have `additionalProperties: false` and require all of its properties, and where free maps are not allowed:
# therefore overrides are a list of {key, value}. Claude Code and qwen-code turn it into a tool; other agents see it in
# the prompt. Only keywords that all of them know are used: no pattern, bounds or references; `validate` checks those.
KINDS = ("config", "code", "prompt", "data")
DIRECTIONS = ("up", "down", "same")
SLUG = "lower-case letters, digits and single hyphens, 2 to 40 characters"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _one_of(words: tuple[str, ...], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words), "description": description}


def _list(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description}


def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object that holds these properties, all of them, and nothing else."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_OVERRIDE = closed(
    {
        "key": _text("the dotted key, flag or $NAME as it is listed; + before it adds a key that the recipe lacks"),
        "value": _text("the value as JSON: 0.001, true, [1, 2]; a word such as cosine may stand without quotes"),
    }
)
_EXPECTED = closed(
    {
        "metric": _text("the objective, or another metric that the runs record"),
        "direction": _one_of(DIRECTIONS, "where it is expected to go; same only for a simpler idea"),
        "size": _text("by how much, in the metric's unit, and from when on: +0.02 by step 40"),
    }
)
_HYPOTHESIS = closed(
    {
        "slug": _text(f"the name of the idea and of its branch: {SLUG}"),
        "title": _text("one line: what is changed"),
        "rationale": _text("what was seen, why this should help, what would disprove it; of code: what to change"),
        "expected_effect": _EXPECTED,
        "kind": _one_of(KINDS, "config changes listed settings only; the others change files, in a turn of their own"),
        "overrides": _list(_OVERRIDE, "settings to change; empty where only files change"),
        "files": _list(_text("a path in the repository"), "files that have to be changed; empty for config"),
        "risk": _text("what may go wrong, and how that would be seen"),
        "parent": _text("best, baseline, or the slug of an attempted idea that this one builds on"),
        "simpler": {"type": "boolean", "description": "removes something: is kept when it is only as good"},
    }
)
SCHEMA: Mapping[str, Any] = closed({"hypotheses": _list(_HYPOTHESIS, "the best first")})
"""The schema of the whole answer, {"hypotheses": [...]}."""


MOST_VALUE = 2000  # characters
_MOST_BRACKETS = 100
_MOST_STARTS = 400  # of JSON objects in one text
_DRIVE = later(r"[A-Za-z]:[\\/]")


def value_of(written: object) -> object:
    """A value of a recipe: a text is parsed as JSON, or taken as it is if it is not JSON; other values are unchanged.

    ValueError, one clause, for what no recipe can hold: NaN, infinities, texts that are too long or have several lines.
    """
    if not isinstance(written, str):
        return _plain(written)
    if len(written) > MOST_VALUE:
        raise ValueError(f"it has more than {MOST_VALUE} characters")
    try:
        return _plain(json.loads(written, parse_constant=_no_number))
    except json.JSONDecodeError:
        text = written.strip()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not text:
        raise ValueError('it is empty; write "" in quotes for an empty text, null for nothing')
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    if text[0] in '[{"':
        raise ValueError("it begins like JSON and is none")
    return text


def _plain(value: object) -> object:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, RecursionError, ValueError) as error:
        raise ValueError("it is no finite JSON value") from error
    if len(text) > MOST_VALUE:
        raise ValueError(f"it has more than {MOST_VALUE} characters")
    if not isinstance(value, str) and text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise ValueError("it is nested too deeply")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value to train with")


def is_inside(path: str) -> bool:
    """Whether a path names a file inside the repository, outside `.git` and `.autoresearch`."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith(("/", "~")) or path.endswith("/") or "\\" in path or _DRIVE.match(path):
        return False
    return ".." not in parts and parts[0] not in (".git", ".autoresearch") and path.isprintable() and len(path) < 300


def object_with(key: str, text: str) -> tuple[Mapping[str, Any] | None, str]:
    """The JSON object in an agent's message with this key, else the first; (None, reason) if there is none.

    For agents without support for schemas, which add prose or a fence, or begin again after a broken start.
    """
    decoder, at, first, broken = json.JSONDecoder(), 0, None, ""
    for _ in range(_MOST_STARTS):
        at = text.find("{", at)
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            says = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            broken = broken or (f"its JSON breaks off or is broken: {says}" if _is_json(text, at) else "")
            at += 1
            continue
        if key in value:
            return value, ""
        first, at = first or value, end
    if broken or first is None:
        return None, broken or "there is no JSON object in the answer"
    return first, ""


def _is_json(text: str, at: int) -> bool:
    return text[at + 1 : at + 40].lstrip()[:1] == '"'


def one_line(text: str, limit: int) -> str:
    """The text as one line of at most `limit` characters, without control and formatting characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


AGENT = "agent"
MOST = 50  # hypotheses of one answer that are processed
MOST_OVERRIDES = 40
MOST_PATHS = 40
WORDS = 5  # minimum length in words of a rationale that names no file
_LENGTHS = {"title": 140, "rationale": 4000, "risk": 600, "size": 160, "metric": 200}
_SENTENCE = 300
_SLUG = later(r"[a-z0-9](?:-?[a-z0-9])+\Z")
_KEY = later(r"\+?[^\s\x00-\x1f\x7f+=,;`'\"<>{}()]{1,200}\Z")
_ITEM: Mapping[str, Any] = SCHEMA["properties"]["hypotheses"]["items"]


def _fits(overrides: Mapping[str, object], parent: str) -> str:
    return ""


def _open(name: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class KnownIdeas:
    """What a proposal is checked against. `parents`: slugs of ideas that can be built on."""

    objective: Objective
    metrics: Collection[str] = ()  # other metric names that an expected effect may refer to
    parents: Collection[str] = ()
    kinds: Collection[str] = KINDS  # the kinds requested: config may be reserved for the optimiser
    protected: Callable[[str], str] = _open  # why an agent may not set a recipe key, or ""
    closed: Callable[[str], str] = _open  # why an agent may not change a path, or ""
    fits: Callable[[Mapping[str, object], str], str] = _fits  # overrides, parent -> why they cannot be set, or ""
    turn: str = ""  # the name of the turn that its hypotheses came from


@dataclass(frozen=True, slots=True)
class CheckedProposals:
    """The parsed answer: the usable hypotheses, and the problems of the others."""

    hypotheses: tuple[Hypothesis, ...] = ()
    problems: tuple[str, ...] = ()


def validate(data: object, known_ideas: KnownIdeas) -> CheckedProposals:
    """Check an answer. An invalid document yields only problems; else each hypothesis is checked separately."""
    if not isinstance(data, Mapping):
        return CheckedProposals(problems=(f"the answer is {_kind(data)}, not an object with the key `hypotheses`",))
    problems = [f"{key}: no such key in the answer, which has only `hypotheses`" for key in _unknown(data, SCHEMA)]
    listed = data.get("hypotheses")
    if not isinstance(listed, list):
        what = _kind(listed) if "hypotheses" in data else "missing"
        return CheckedProposals(problems=(f"hypotheses: is {what}, not a list", *problems))
    if not listed:
        return CheckedProposals(problems=("hypotheses: is empty; give at least one", *problems))
    good = []
    for number, item in enumerate(listed[:MOST]):
        reader = _ProposalReader(f"hypotheses[{number}]", known_ideas)
        hypothesis = reader.hypothesis(item, number)
        problems += reader.problems
        if hypothesis and not reader.problems:
            good.append(hypothesis)
    if len(listed) > MOST:
        problems.append(f"hypotheses: {len(listed)} are given, and only the first {MOST} were looked at")
    return CheckedProposals(tuple(good), tuple(problems))


class _ProposalReader:
    """Parses one hypothesis and collects its problems."""

    def __init__(self, where: str, known_ideas: KnownIdeas) -> None:
        self.where, self.known = where, known_ideas
        self.problems: list[str] = []

    def hypothesis(self, item: object, number: int) -> Hypothesis | None:
        if not isinstance(item, Mapping):
            self.wrong("", f"is {_kind(item)}, not an object")
            return None
        for key in _unknown(item, _ITEM):
            self.wrong(key, "no such key in a hypothesis")
        if missing := [key for key in _ITEM["required"] if key not in item]:
            self.wrong("", f"lacks {', '.join(missing)}")
            return None
        title, rationale = self.text(item, "title"), self.text(item, "rationale", least=1)
        kind, simpler = self.word(item, "kind", KINDS), self.truth(item, "simpler")
        parent, changes, paths = self.parent(item), self.overrides(item), self.paths(item)
        if kind:
            self.substance(kind, rationale, changes, paths)
        if changes and parent and not self.problems and (why := self.known.fits(changes, parent)):
            self.wrong("overrides", why)
        return Hypothesis(
            slug=self.slug(item),
            sentence=sentence(title, rationale),
            parent=parent,
            overrides=changes,
            expected=self.expected(item, simpler=simpler),
            simpler=simpler,
            proposer=AGENT,
            token=f"{self.known.turn}#{number + 1}",
            kind=kind,
            risk=self.text(item, "risk", least=0),
            paths=paths,
            rationale=rationale,
        )

    def wrong(self, key: str, what: str) -> None:
        where = f"{self.where}.{one_line(key, 60)}" if key else self.where
        self.problems.append(f"{where}: {what}")

    def text(self, item: Mapping[Any, Any], key: str, least: int = 1, name: str = "") -> str:
        value = item.get(key)
        if not isinstance(value, str):
            self.wrong(name or key, f"is {_kind(value)}, not text")
            return ""
        line = one_line(value, _LENGTHS[key])
        if len(line) < least:
            self.wrong(name or key, "says nothing")
        return line

    def word(self, item: Mapping[Any, Any], key: str, words: Sequence[str], name: str = "") -> str:
        value = item.get(key)
        if value in words and isinstance(value, str):
            return value
        self.wrong(name or key, f"is {_shown(value)}, which is none of {', '.join(words)}")
        return ""

    def truth(self, item: Mapping[Any, Any], key: str) -> bool:
        value = item.get(key)
        if not isinstance(value, bool):
            self.wrong(key, f"is {_kind(value)}, not true or false")
        return value is True

    def slug(self, item: Mapping[Any, Any]) -> str:
        value = item.get("slug")
        if not isinstance(value, str) or not _SLUG.match(value) or len(value) > SLUG_MAX:
            self.wrong("slug", f"is {_shown(value)}; write {SLUG}")
            return ""
        if value in (BASELINE, BEST):
            self.wrong("slug", f"an idea cannot be called {value}")
        return value

    def parent(self, item: Mapping[Any, Any]) -> str:
        value = item.get("parent")
        if value in ("", None):
            return BEST
        if isinstance(value, str) and value in (BEST, BASELINE, *self.known.parents):
            return value
        self.wrong("parent", f"is {_shown(value)}, which is neither best, nor baseline, nor an idea that was attempted")
        return ""

    def expected(self, item: Mapping[Any, Any], *, simpler: bool) -> str:
        value, name = item.get("expected_effect"), "expected_effect"
        properties = _ITEM["properties"][name]
        if not isinstance(value, Mapping):
            self.wrong(name, f"is {_kind(value)}, not an object")
            return ""
        for key in _unknown(value, properties):
            self.wrong(f"{name}.{key}", "no such key in an expected effect")
        metric = self.text(value, "metric", name=f"{name}.metric")
        size = self.text(value, "size", name=f"{name}.size")
        direction = self.word(value, "direction", DIRECTIONS, f"{name}.direction")
        if metric and not self._is_known(metric):
            self.wrong(f"{name}.metric", f"is {_shown(metric)}, which no run records; the objective is {self._metric}")
        elif direction and metric == self._metric and not simpler:
            better = "up" if self.known.objective.direction is Direction.MAXIMIZE else "down"
            if direction != better:
                self.wrong(f"{name}.direction", f"{metric} is to go {better}; an idea that expects else is simpler")
        return f"{metric} {direction}: {size}"

    @property
    def _metric(self) -> str:
        return self.known.objective.metric

    def _is_known(self, metric: str) -> bool:
        return metric in (self._metric, *self.known.objective.keys) or metric in self.known.metrics

    def overrides(self, item: Mapping[Any, Any]) -> dict[str, object]:
        pairs = item.get("overrides")
        if not isinstance(pairs, list):
            self.wrong("overrides", f"is {_kind(pairs)}, not a list of {{key, value}}")
            return {}
        if len(pairs) > MOST_OVERRIDES:
            self.wrong("overrides", f"are {len(pairs)}; an idea changes {MOST_OVERRIDES} keys at most")
            return {}
        changes: dict[str, object] = {}
        for number, pair in enumerate(pairs):
            where = f"overrides[{number}]"
            if not isinstance(pair, Mapping) or set(pair) != {"key", "value"}:
                self.wrong(where, "is no object with key and value")
            elif not isinstance(pair["key"], str) or not _KEY.match(pair["key"]):
                self.wrong(f"{where}.key", f"is {_shown(pair['key'])}, which is no dotted key of a recipe")
            else:
                self._add(changes, where, pair["key"], pair["value"])
        return changes

    def _add(self, changes: dict[str, object], where: str, name: str, written: object) -> None:
        try:
            leaves = overrides.flatten({name: value_of(written)})
        except ValueError as error:
            self.wrong(f"{where}.value", f"is {_shown(written)}: {error}")
            return
        for key, value in leaves.items():  # an object is flattened into several keys
            if not _KEY.match(key):
                self.wrong(f"{where}.value", f"holds {_shown(key)}, which is no dotted key of a recipe")
            elif key in changes:
                self.wrong(f"{where}.key", f"{key} stands twice")
            elif why := self.known.protected(key.removeprefix("+")):
                self.wrong(f"{where}.key", f"{key} is protected: {why}")
            else:
                changes[key] = value

    def paths(self, item: Mapping[Any, Any]) -> tuple[str, ...]:
        listed = item.get("files")
        if not isinstance(listed, list):
            self.wrong("files", f"is {_kind(listed)}, not a list of paths")
            return ()
        if len(listed) > MOST_PATHS:
            self.wrong("files", f"are {len(listed)}; an idea changes {MOST_PATHS} files at most")
            return ()
        for number, path in enumerate(listed):
            if not isinstance(path, str) or not is_inside(path):
                self.wrong(f"files[{number}]", f"is {_shown(path)}, which is no path inside the repository")
            elif why := self.known.closed(path.removeprefix("./")):
                self.wrong(f"files[{number}]", f"{_shown(path)} is protected: {why}")
        return tuple(dict.fromkeys(path.removeprefix("./") for path in listed if isinstance(path, str)))

    def substance(self, kind: str, rationale: str, changes: Mapping[str, object], paths: Sequence[str]) -> None:
        if kind not in self.known.kinds:
            self.wrong("kind", f"is {kind}; wanted are {', '.join(self.known.kinds)}")
        elif kind == "config" and paths:
            self.wrong("files", "config changes recipe keys only; an idea that changes files is code, prompt or data")
        elif kind == "config" and not changes and not self.problems:
            self.wrong("overrides", "is empty, and config is nothing but overrides")
        elif kind != "config" and not paths and len(rationale.split()) < WORDS:
            self.wrong("rationale", "says too little of what is to be changed, and `files` names nothing")


def sentence(title: str, rationale: str) -> str:
    """One line for tables and commits: the title, and the start of the rationale."""
    begins, dot, _ = rationale.partition(". ")
    whole = f"{title.rstrip('.')}: {begins}{dot.strip()}" if begins else title
    return one_line(whole, _SENTENCE)


def _unknown(value: Mapping[Any, Any], schema: Mapping[str, Any]) -> list[str]:
    return [str(key) for key in value if key not in schema["properties"]][:5]


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "text"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _shown(value: object) -> str:
    text = one_line(value if isinstance(value, str) else json.dumps(value, default=str)[:200], 60)
    return f"`{text.replace('`', chr(39))}`" if isinstance(value, str) and not _SLUG.match(text) else text or "nothing"

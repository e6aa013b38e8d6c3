"""Proposals: parse and check an agent's answer to a request for hypotheses.

Every problem is one sentence with its location (`hypotheses[1].slug: ...`); the agent is asked again with these
sentences. Free text is accepted as it is and cut; a value that decides what would be run is never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from autoresearch.core.agents.protection import Protection
from autoresearch.core.agents.turns import ALL, IdeaFinding, StandingFindings
from autoresearch.core.campaign import overrides
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.keys import nearest
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import SLUG_MAX
from autoresearch.runner.masking import mask_text

KINDS = ("config", "code", "prompt", "data")
SLUG = "lower-case letters, digits and single hyphens, 2 to 40 characters"
_SETTINGS = {"a dotted key, flag or $NAME as it is listed": "its value: 0.001, true, [1, 2], cosine"}
_HYPOTHESIS = {
    "slug": f"the name of the idea and of its branch: {SLUG}",
    "title": "one line: what is changed",
    "rationale": "what was seen, why this should help, what would disprove it; of code: what to change",
    "expected": "which metric that the runs record goes where, by how much, and from when on: pass@1 +0.02 by step 40",
    "kind": f"{' | '.join(KINDS)}: config changes settings only; the others change files",
    "overrides": _SETTINGS,
    "files": ["a path in the repository"],
    "risk": "what may go wrong, and how that would be seen",
    "parent": "best, baseline, or the slug of an attempted idea",
}
_FINDING = {"idea": "the slug of an idea that you were asked about", "text": "two or three sentences"}
FORM: Mapping[str, Any] = {"hypotheses": [_HYPOTHESIS], "findings": [_FINDING]}
"""The form of the whole answer, as the agent is shown it: these keys, all of them; `findings` may be missing."""


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

    Agents add prose or a fence to it, or begin again after a broken start.
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
    """The text as one line of at most `limit` characters, without secrets, control and formatting characters."""
    line = mask_text(" ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split()))
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


AGENT = "agent"
EXTRA = "more than were asked for"  # why an idea is not taken that nothing is wrong with
MOST = 50  # hypotheses of one answer that are processed
MOST_OVERRIDES = 40
MOST_PATHS = 40
MOST_ASKED = 10  # ideas of which one turn is asked for findings
MOST_TEXT, MOST_SUMMARY_TEXT = 900, 2400  # characters of a finding, and of a summary of them
WORDS = 5  # minimum length in words of a rationale that names no file
_LENGTHS = {"title": 140, "rationale": 4000, "expected": 400, "risk": 600}
_SENTENCE = 300
_SLUG = later(r"[a-z0-9](?:-?[a-z0-9])+\Z")
_KEY = later(r"\+?[^\s\x00-\x1f\x7f+=,;`'\"<>{}()]{1,200}\Z")


def _fits(overrides: Mapping[str, object], parent: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class KnownIdeas:
    """What a proposal is checked against. `parents`: slugs of ideas that can be built on."""

    parents: Collection[str] = ()
    kinds: Collection[str] = KINDS  # the kinds requested: config may be reserved for the optimiser
    protection: Protection = field(default_factory=Protection)
    fits: Callable[[Mapping[str, object], str], str] = _fits  # overrides, parent -> why they cannot be set, or ""
    turn: str = ""  # the name of the turn that its hypotheses came from


@dataclass(frozen=True, slots=True)
class CheckedProposals:
    """The parsed answer: the usable hypotheses, and the problems of the others."""

    hypotheses: tuple[Hypothesis, ...] = ()
    problems: tuple[str, ...] = ()


def validate(data: object, known_ideas: KnownIdeas) -> CheckedProposals:
    """Check an answer. An invalid document yields only problems; else each hypothesis is checked separately."""
    rest = {key: data[key] for key in data if key != "findings"} if isinstance(data, Mapping) else data
    problems = [*_misshapen(rest, {"hypotheses": []}, "the answer")]
    listed = rest.get("hypotheses") if isinstance(rest, Mapping) else None
    if not isinstance(listed, list):
        return CheckedProposals(problems=tuple(problems))
    if not listed:
        problems.append("hypotheses: is empty; give at least one")
    good = []
    for number, item in enumerate(listed[:MOST]):
        where = f"hypotheses[{number}]"
        if wrong := [*_misshapen(item, _HYPOTHESIS, where)]:
            problems += wrong
            continue
        reader = _ProposalReader(where, known_ideas)
        hypothesis = reader.hypothesis(item, number)
        problems += reader.problems
        if not reader.problems:
            good.append(hypothesis)
    if len(listed) > MOST:
        problems.append(f"hypotheses: {len(listed)} are given, and only the first {MOST} were looked at")
    return CheckedProposals(tuple(good), tuple(problems))


def _misshapen(value: object, form: Any, where: str) -> Iterator[str]:
    """What is not as the form has it, one sentence each. Settings have other keys, and values of any type."""
    match form, value:
        case dict(), Mapping() if form is not _SETTINGS:
            unknown = [one_line(str(key), 60) for key in value if key not in form][:5]
            yield from (f"{where}.{key}: no such key; the nearest is {nearest(key, form) or '-'}" for key in unknown)
            if missing := [key for key in form if key not in value]:
                yield f"{where}: lacks {', '.join(missing)}"
            for key in (key for key in form if key in value):
                yield from _misshapen(value[key], form[key], f"{where}.{key}")
        case [inner], list():
            for number, item in enumerate(value[: MOST + 1]):
                yield from _misshapen(item, inner, f"{where}[{number}]")
        case (str(), str()) | ([], list()) | (dict(), Mapping()):
            pass
        case _:
            yield f"{where}: is {_kind(value)}, not {_kind(form)}"


def read_findings(data: object, slugs: Collection[str], so_far: StandingFindings) -> list[IdeaFinding]:
    """The findings in an agent's answer on ideas with these slugs, and their summary if one was due.

    What has not their form is passed over: no idea is lost because of it.
    """
    listed = data.get("findings") if isinstance(data, Mapping) else None
    read: dict[str, IdeaFinding] = {}
    for item in listed[: 2 * MOST_ASKED] if isinstance(listed, list) else ():
        if not isinstance(item, Mapping):
            continue
        idea, text = item.get("idea"), item.get("text")
        if not isinstance(idea, str) or not isinstance(text, str) or not one_line(text, MOST_TEXT):
            continue
        if idea in slugs:
            read[idea] = IdeaFinding(idea, one_line(text, MOST_TEXT))
        elif idea == ALL and so_far.summary_due:
            before = so_far.summary.covers if so_far.summary else ()
            covers = (*before, *(one.idea for one in so_far.since))
            read[ALL] = IdeaFinding(ALL, one_line(text, MOST_SUMMARY_TEXT), covers)
    return list(read.values())


class _ProposalReader:
    """Reads one hypothesis of an answer, and collects what is wrong with it."""

    def __init__(self, where: str, known_ideas: KnownIdeas) -> None:
        self.where, self.known = where, known_ideas
        self.problems: list[str] = []

    def hypothesis(self, item: Mapping[str, Any], number: int) -> Hypothesis:
        words = {key: one_line(item[key], most) for key, most in _LENGTHS.items()}
        for key in ("title", "rationale", "expected"):
            if not words[key]:
                self.wrong(key, "says nothing")
        self.slug(item["slug"])
        parent, changes, paths = item["parent"] or BEST, self.overrides(item["overrides"]), self.paths(item["files"])
        if parent not in (BEST, BASELINE, *self.known.parents):
            self.wrong("parent", f"is {_shown(parent)}, which is neither best, nor baseline, nor an attempted idea")
        self.substance(item["kind"], words["rationale"], changes, paths)
        if changes and not self.problems and (why := self.known.fits(changes, parent)):
            self.wrong("overrides", why)
        return Hypothesis(
            slug=item["slug"],
            sentence=sentence(words["title"], words["rationale"]),
            parent=parent,
            overrides=changes,
            expected=words["expected"],
            proposer=AGENT,
            token=f"{self.known.turn}#{number + 1}",
            kind=item["kind"],
            risk=words["risk"],
            paths=paths,
            rationale=words["rationale"],
        )

    def wrong(self, key: str, what: str) -> None:
        self.problems.append(f"{self.where}.{key}: {what}")

    def slug(self, slug: str) -> None:
        if not _SLUG.match(slug) or len(slug) > SLUG_MAX:
            self.wrong("slug", f"is {_shown(slug)}; write {SLUG}")
        elif slug in (BASELINE, BEST):
            self.wrong("slug", f"an idea cannot be called {slug}")

    def overrides(self, settings: Mapping[str, object]) -> dict[str, object]:
        if len(settings) > MOST_OVERRIDES:
            self.wrong("overrides", f"are {len(settings)}; an idea changes {MOST_OVERRIDES} keys at most")
            return {}
        changes: dict[str, object] = {}
        for name, written in settings.items():
            where = f"overrides.{one_line(name, 60)}"
            try:
                leaves = overrides.flatten({name: value_of(written)})
            except ValueError as error:
                self.wrong(where, f"is {_shown(written)}: {error}")
                continue
            for key, value in leaves.items():  # an object is flattened into several keys
                if not _KEY.match(key):
                    self.wrong(where, f"{_shown(key)} is no dotted key of a recipe")
                elif key in changes:
                    self.wrong(where, f"{key} stands twice")
                elif why := self.known.protection.why_key(key):
                    self.wrong(where, f"{key} is protected: {why}")
                else:
                    changes[key] = value
        return changes

    def paths(self, files: Sequence[str]) -> tuple[str, ...]:
        if len(files) > MOST_PATHS:
            self.wrong("files", f"are {len(files)}; an idea changes {MOST_PATHS} files at most")
        for number, path in enumerate(files[:MOST_PATHS]):
            if not is_inside(path):
                self.wrong(f"files[{number}]", f"is {_shown(path)}, which is no path inside the repository")
            elif why := self.known.protection.why(path.removeprefix("./")):
                self.wrong(f"files[{number}]", f"{_shown(path)} is protected: {why}")
        return tuple(dict.fromkeys(path.removeprefix("./") for path in files))

    def substance(self, kind: str, rationale: str, changes: Mapping[str, object], paths: Sequence[str]) -> None:
        if kind not in self.known.kinds:
            self.wrong("kind", f"is {_shown(kind)}; wanted are {', '.join(self.known.kinds)}")
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


def title_of(hypothesis: Hypothesis) -> str:
    """The title of an agent's idea, without the start of its rationale; of any other idea its sentence."""
    begins = hypothesis.rationale.partition(". ")[0][:40]
    return hypothesis.sentence.partition(f": {begins}")[0] if begins else hypothesis.sentence


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _shown(value: object) -> str:
    text = one_line(value if isinstance(value, str) else json.dumps(value, default=str)[:200], 60)
    return f"`{text.replace('`', chr(39))}`" if isinstance(value, str) and not _SLUG.match(text) else text or "nothing"

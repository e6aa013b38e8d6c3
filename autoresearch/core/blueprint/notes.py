"""The notes of a blueprint: declared keys that the harness acts on, and prose that it only shows.

Keys are items (`- trainer: verl`) or in a fenced yaml block, in any notes section. Prose is never run: the steps
below a heading such as `### Preparatory Work` are left to the reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoresearch.core.blueprint.document import Section, error, warning
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.note_entries import note_values, scalar
from autoresearch.core.blueprint.note_keys import LISTS, TEXTS
from autoresearch.core.blueprint.swarm_notes import COMMANDS, BadNote, read_swarm
from autoresearch.core.metrics.expression_parser import EXPRESSIONS, ExpressionError, near_miss, parse
from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.limits import EVALUATE_S
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.core.text.durations import parse_duration, problem

_DECLARED_FIRST = -100  # sources named in a blueprint take precedence over those known for the trainer
_KINDS = {kind.value: kind for kind in SourceFormat}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SEED = re.compile(r"\d{1,9}|--?[A-Za-z][\w.-]*|\$[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class Notes:
    """The declared values; empty where not declared. `text` is all notes as text, for readers."""

    trainer: str = ""
    launcher: str = ""  # the target, in the syntax of `--launcher`
    metric: str = ""
    direction: str = ""  # maximize, minimize or ""
    slug: str = ""
    prepare: tuple[str, ...] = ()  # shell commands that run before the trainer
    evaluate: tuple[str, ...] = ()  # shell commands that measure the run after its trainer has exited
    evaluate_s: float = EVALUATE_S
    cleanup: tuple[str, ...] = ()  # shell commands that run after any ending
    env: Mapping[str, str] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    include: tuple[str, ...] = ()  # ignored or untracked inputs that a worktree needs
    writable: tuple[str, ...] = ()  # directories outside its own that a sandboxed trainer may write to
    seed: str = ""  # how a seed is passed to the training: a recipe key, --flag or $NAME; or a number, the first seed
    first_step: str = ""  # "kl": only a printed KL counts as the first step, as published
    keep_children: bool = False
    resume: bool = False  # the run may continue from what an earlier run left
    record_metrics: bool = True  # the trainer's own metric writer may be switched on
    source: tuple[Source, ...] = ()  # files of metrics, preferred over all others
    swarm: Swarm | None = None  # the server side of a run in AgentJet's swarm mode
    step_line: tuple[str, ...] = ()  # format of the training-step lines of an unknown trainer
    validation_line: tuple[str, ...] = ()
    text: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The declared line formats, each prefixed with its kind, `step` or `validation`."""
        return (*(f"step {text}" for text in self.step_line), *(f"validation {text}" for text in self.validation_line))


def read_notes(sections: Sequence[Section], prose: str, name: str) -> tuple[Notes, list[Finding]]:
    """Parse all notes sections, with findings; `prose` is their unparsed text."""
    findings: list[Finding] = []
    values = note_values(sections, name, findings)
    texts = {key: _single(key, values.get(key, []), name, findings) for key in TEXTS}
    lists = {key: _strings(key, values.get(key, [])) for key in LISTS}
    return Notes(
        trainer=texts["trainer"].lower(),
        launcher=texts["launcher"].strip("`\"' "),
        metric=_metric(texts["metric"], values, name, findings),
        direction=_direction(texts["direction"], values, name, findings),
        slug=texts["slug"],
        prepare=tuple(text for _, text in lists["prepare"]),
        evaluate=tuple(text for _, text in lists["evaluate"]),
        evaluate_s=_evaluate_s(texts["evaluate_time"], values, name, findings),
        cleanup=tuple(text for _, text in lists["cleanup"]),
        env=_env(lists["env"], name, findings),
        requires_env=_names(lists["requires_env"], name, findings),
        include=tuple(text for _, text in lists["include"]),
        writable=tuple(text for _, text in lists["writable"]),
        seed=_seed(texts["seed"], values, name, findings),
        first_step=_first_step(texts["first_step"], values, name, findings),
        keep_children=_flag("keep_children", texts, values, name, findings),
        resume=_flag("resume", texts, values, name, findings),
        record_metrics=_flag("record_metrics", texts, values, name, findings, usual=True),
        source=_sources(lists["source"], name, findings),
        swarm=_swarm(texts, lists, values, name, findings),
        step_line=tuple(text.strip() for _, text in lists["step_line"]),
        validation_line=tuple(text.strip() for _, text in lists["validation_line"]),
        text=prose,
    ), findings


def _single(key: str, values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> str:
    """The single value of a key, without a trailing comment; two different values are an error."""
    texts = [(no, re.sub(r"(?<=\S)\s+#\s.*$", "", text).strip()) for no, text in values]
    texts = [(no, text) for no, text in texts if text]
    different = next((no for no, text in texts if text != texts[0][1]), 0)
    if different:
        message = f"the notes give two values for {key} (lines {texts[0][0]} and {different})"
        findings.append(error(name, different, "note_twice", message, "keep one of them"))
    if texts and "\n" in texts[0][1]:
        findings.append(error(name, texts[0][0], "bad_note", f"{key} must be one line"))
        return ""
    return texts[0][1] if texts else ""


def _strings(key: str, values: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    if key == "requires_env":
        return [(no, word) for no, text in values for word in re.split(r"[\s,，、]+", text) if word]
    if key in ("include", "writable"):
        return [(no, line.strip()) for no, text in values for line in text.split("\n") if line.strip()]
    return [(no, text) for no, text in values if text.strip()]


def _env(values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> dict[str, str]:
    """Parse `NAME=value` or `NAME: value` lines; quoted values may contain anything."""
    env: dict[str, str] = {}
    for no, text in values:
        for line in text.split("\n"):
            key, mark, value = _assignment(re.sub(r"^(?:export\s+|[-*+]\s+)", "", line.strip()))
            if not line.strip():
                continue
            if not mark or not _NAME.match(key):
                message = f"env: {line.strip()[:60]!r} is not NAME=value"
                findings.append(error(name, no, "bad_env", message, "a name is letters, digits and _"))
            else:
                env[key] = scalar(value)
    return env


def _assignment(text: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:\s]*)\s*(=|:(?:\s|$))(.*)$", text)
    return (match[1], match[2], match[3]) if match else (text, "", "")


def _names(values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> tuple[str, ...]:
    for no, word in values:
        if not _NAME.match(word.strip("`\"'$")):
            message = f"requires_env: {word[:60]!r} is not the name of a variable"
            findings.append(error(name, no, "bad_env", message))
    return tuple(dict.fromkeys(word.strip("`\"'$") for _, word in values))


def _at(key: str, values: Mapping[str, list[tuple[int, str]]]) -> int:
    return values[key][0][0] if values.get(key) else 0


def _metric(text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]) -> str:
    """The metric; an error if it is a malformed expression, a warning if it resembles one."""
    line = _at("metric", values)
    try:
        parse(text)
    except ExpressionError as broken:
        findings.append(error(name, line, "bad_metric", f"metric: {broken}", f"write {EXPRESSIONS}"))
    if meant := near_miss(text):
        message = f"metric: {text[:60]!r} is taken as the name of a metric"
        findings.append(warning(name, line, "odd_metric", message, f"did you mean {meant}?"))
    return text


def _direction(text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]) -> str:
    word = text.lower().strip("`\"'. ")
    if not word:
        return ""
    for wanted, names in (
        ("maximize", ("max", "maximize", "maximise", "higher", "up", "最大", "最大化")),
        ("minimize", ("min", "minimize", "minimise", "lower", "down", "最小", "最小化")),
    ):
        if word in names or word in (f"{names[3]} is better",):
            return wanted
    message = f"direction: {text[:60]!r} is neither maximize nor minimize"
    findings.append(error(name, _at("direction", values), "bad_note", message))
    return ""


def _first_step(text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]) -> str:
    word = text.lower().strip("`\"'. ")
    if word in ("", "any", "step", "metric", "auto"):
        return ""
    if word in ("kl", "kl_loss", "kl loss"):
        return "kl"
    message = f"first_step: {text[:60]!r} is neither kl nor any"
    findings.append(error(name, _at("first_step", values), "bad_note", message, "limits go to [exp_max_time]"))
    return ""


def _seed(text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]) -> str:
    word = text.strip("`\"' ")
    if not word or _SEED.fullmatch(word):
        return word
    message = f"seed: {text[:60]!r} is no recipe key, no flag, no $NAME and no number: it is not used"
    findings.append(warning(name, _at("seed", values), "bad_note", message, "write one of them, such as `--seed`"))
    return ""


def _evaluate_s(text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]) -> float:
    if not text:
        return EVALUATE_S
    try:
        seconds = parse_duration(text.strip("`\"'. "))
        trouble = problem(seconds)
    except ValueError as wrong:
        seconds, trouble = EVALUATE_S, f"is no time: {wrong}"
    if trouble:
        message, hint = f"evaluate_time: {text[:60]!r} {trouble}", "durations look like 90s, 20m or 1h30m"
        findings.append(error(name, _at("evaluate_time", values), "bad_note", message, hint))
    return seconds


def _flag(
    key: str,
    texts: Mapping[str, str],
    values: Mapping[str, list[tuple[int, str]]],
    name: str,
    findings: list[Finding],
    *,
    usual: bool = False,
) -> bool:
    word = texts[key].lower().strip("`\"'. ")
    said = {"是": True, "否": False}.get(word, truth(word))
    if said is not None:
        return said
    if word:
        message = f"{key}: {texts[key][:60]!r} is neither true nor false"
        told = error if key == "keep_children" else warning  # the other two are also words of prose
        findings.append(told(name, _at(key, values), "bad_note", message, f"it counts as {str(usual).lower()}"))
    return usual


def _swarm(
    texts: Mapping[str, str],
    lists: Mapping[str, list[tuple[int, str]]],
    values: Mapping[str, list[tuple[int, str]]],
    name: str,
    findings: list[Finding],
) -> Swarm | None:
    try:
        return read_swarm(texts, {key: [text for _, text in lists[key]] for key in COMMANDS})
    except BadNote as bad:
        key, what, hint = bad.args
        findings.append(error(name, _at(key, values), "bad_note", f"{key}: {what}", hint))
        return None


def _sources(values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> tuple[Source, ...]:
    for no, text in values:
        word, blank, _ = text.strip().partition(" ")
        if blank and word.isidentifier() and word.lower() not in _KINDS:
            message = f"`{word}` is no kind of source: it is taken for a part of the path"
            findings.append(warning(name, no, "odd_source", message, f"known: {', '.join(_KINDS)}"))
    return tuple(_source(text, n) for n, (_, text) in enumerate(values))


def _source(text: str, n: int) -> Source:
    """Parse `jsonl path`, `dict_lines path`, `console`, or a path, whose suffix then determines the format."""
    word, _, rest = text.partition(" ")
    given = _KINDS.get(word.lower().rstrip(":"))
    path = (rest if given else text).strip().strip("`\"'")
    kind = given or (SourceFormat.JSONL if path.endswith((".jsonl", ".json", ".ndjson")) else SourceFormat.DICT_LINES)
    return Source(kind, path, _DECLARED_FIRST + n)

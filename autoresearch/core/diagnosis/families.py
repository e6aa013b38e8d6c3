"""Which family a line of a log tells of: by an exception's type, the frame that raised it, and few words.

The words, the types and what helps stand in families.yaml beside this, as torch, vLLM, SGLang, Ray, NCCL, Slurm, hydra
and Python print them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from typing import Any

from autoresearch.core.diagnosis.failure import FailureFamily, FailurePolicy
from autoresearch.core.diagnosis.log_lines import TracebackFrame
from autoresearch.core.text.regex import later

_PROXYCHAINS = "proxychains is installed: begin the command with `proxychains -q` where the host needs a proxy"
_DOTTED = r"^(?:[A-Za-z_]\w*\.)*"
_EXCEPTION = later(_DOTTED + r"(\w+)(?:\([\w.]{1,80}\))?(?:: |:?$)")
_USUAL_NAME = later(r"(?:Error|Exception|Interrupt|Exit|NotFound|Stop\w*)$")
_SIZES = later(r"\[\d[\d, ]*\]|\(\d[\d, ]*\)|\b\d+(?:x\d+)+\b|(?<![\w.-])\d+(?:\.\d+)?(?![\w.])")
_SIZES_DIFFER = later(r"[Ss]ize|shape|dimension|divisible|length|batch|\bdim\b")
_ASKS = later(  # how argument checks are worded
    r"(?i)\b(?:must|should|expect\w*|require[sd]?|needs?|unsupported|(?:not|only) (?:yet )?support\w*|invalid|unknown"
    r"|unrecognized|cannot be|can't be|has to|not allowed|please (?:set|specify|provide|pass|use)|got an?"
    r"|you (?:passed|set|specified|asked)|(?:did not|didn't) (?:pass|set|specify|provide)|(?:are you|make) sure)\b"
)
_OF_PYTHON = later(  # how Python itself words an error: a slip in the code that it stands in
    r"values to unpack|invalid literal for|could not convert string|out of range|is not iterable|unhashable|not in list"
)
_OF_TENSORS = later(r"[Tt]ensors?\b|\bdtype\b")  # ... and torch, of the values that a model computes with
_MODULE_LACKS = later(r"^AttributeError: module '")
_OF_NETWORK = later(r"/(?:huggingface_hub|requests|urllib3?|httpx|httpcore|aiohttp)/")
_QUOTED = later(r"\b([A-Z]\w*(?:Error|Exception))\(")  # an exception that another one tells of
_NAME_WORD = later(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")
_NO_SUCH_NAME = later(r"has no attribute|unexpected keyword argument|positional arguments?\b|cannot import name")
_OWN_MISTAKES = frozenset(
    (
        *("KeyError", "AttributeError", "TypeError", "NameError", "IndexError", "UnboundLocalError", "RecursionError"),
        *("ZeroDivisionError", "SyntaxError", "IndentationError", "StopIteration"),
    )
)
_WAITED = later(r"(?i)timed? ?out|fail\w* to (?:start|connect|respond|come up)|did not (?:start|answer|respond)")
_CHECKS = frozenset(("ValueError", "AssertionError", "NotImplementedError", "RuntimeError"))
_SIZES_NOTE = "sizes do not fit"


class Weight(IntEnum):
    """How well a line explains the end of a run; the lowest seen wins."""

    PROOF = 0  # a message that only this failure prints
    CAUSE = 2  # a line, usually the last of a traceback, that names a cause: a missing module, a bad key
    NAN = 3  # not fatal by itself; the cause if none of the above was seen
    SIGN = 4  # something else died first: a timeout of NCCL, a dead engine, a dead actor
    ANY = 5  # an exception whose family its frames tell, or a fatal signal
    REPORT = 6  # only a report that something else failed


@dataclass(frozen=True, slots=True)
class LineMeaning:
    """What a line tells. signs: how many things of it say so: its words, its type, the frame that raised it."""

    family: FailureFamily
    weight: Weight
    signs: int = 1
    outside: bool = False  # kernel, scheduler or shell say it: later steps do not make it harmless
    note: str = ""


@dataclass(frozen=True, slots=True)
class TellingWords:
    """One regular expression of the table, and a text that every line holds which it matches."""

    needle: str
    regex: re.Pattern[str]
    meaning: LineMeaning


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """families.yaml. needles: every line that can be matched, or that belongs to what can be, holds one of them."""

    families: Mapping[FailureFamily, Mapping[str, Any]]
    types: Mapping[str, LineMeaning]  # of exceptions, by their names
    type_words: Mapping[str, FailureFamily]  # by one word of such a name
    words: tuple[TellingWords, ...]
    needles: tuple[str, ...]

    def policy(self, family: FailureFamily) -> FailurePolicy:
        """What a campaign may do after a failure of this family."""
        return FailurePolicy(self.families[family]["policy"])

    def remedy(self, word: str) -> str:
        """One sentence, what to try, for a family or a class of before; "" for any other word."""
        try:
            return str(self.families[FailureFamily(word)]["remedy"])
        except ValueError:
            return ""

    def suggestions(self, family: FailureFamily, trainer: str = "", *, proxychains: bool = False) -> tuple[str, ...]:
        """What to try, the most likely first. proxychains: whether that program is installed on this host."""
        about = self.families[family]
        trainers = about.get("trainers", {})
        base = trainer.removesuffix("_swarm")
        own = trainers.get(trainer) or trainers.get(base) or (trainers.get("verl") if base == "agentjet" else ()) or ()
        network = (_PROXYCHAINS,) if proxychains and family is FailureFamily.NETWORK else ()
        return (about["remedy"], *own, *network, *about.get("more", ()))

    def type_of(self, name: str) -> LineMeaning | None:
        """What the name of an exception tells: the name itself, or a word of it."""
        if name in self.types or not _USUAL_NAME.search(name):
            return self.types.get(name)
        words = filter(None, (self.type_words.get(word) for word in _NAME_WORD.findall(name)))
        return next((LineMeaning(family, Weight.CAUSE) for family in words), None)

    def match(self, line: str) -> LineMeaning | None:
        """What the words of a line tell, stripped of colours and prefixes."""
        for one in self.words:
            if one.needle in line and one.regex.search(line):
                return one.meaning
        return None


@cache
def package_data(name: str) -> Mapping[str, Any]:
    """A YAML file beside this one, read once."""
    from importlib import resources  # takes milliseconds to import, and more in Python 3.12 and later

    import yaml

    text = resources.files(__package__).joinpath(name).read_text("utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data


@cache
def table() -> FamilyTable:
    """families.yaml, read once."""
    data = package_data("families.yaml")
    words = []
    for entry in data["words"]:
        weight, outside = Weight[entry["weight"].upper()], entry.get("outside", False)
        meaning = LineMeaning(FailureFamily(entry["family"]), weight, 1, outside, entry.get("note", ""))
        for choice in (one for line in entry["lines"] for one in _choices(line)):
            words.append(TellingWords(needle(choice), later(choice.replace("^@", _DOTTED)), meaning))
    types = {
        name: LineMeaning(FailureFamily(family), Weight[weight.upper()])
        for weight, families in data["exceptions"].items()
        for family, names in families.items()
        for name in names
    }
    common = tuple(data["needles"])
    rare = {text for text in (*types, *(one.needle for one in words)) if not any(part in text for part in common)}
    return FamilyTable(
        {FailureFamily(family): about for family, about in data["families"].items()},
        types,
        {word: FailureFamily(family) for family, words in data["words_of_types"].items() for word in words},
        tuple(words),
        (*common, *sorted(rare)),
    )


_TOKEN = later(r"\\[bB]|\\[dDsSwWA-Z]|\\(.)|\[(?:\\.|[^\]\\])+\]|[.^$@]|([*?{]|\+)|(.)", re.DOTALL)


def _choices(regex: str) -> list[str]:
    """The parts of a regular expression between the `|` on its outermost level."""
    parts, depth = [""], 0
    for token in re.findall(r"\\.|\[(?:\\.|[^\]\\])+\]|.", regex):
        depth += (token == "(") - (token == ")")
        if token == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def needle(regex: str) -> str:
    """The longest text that every line holds which this regular expression matches, of what stands outside of groups.

    It knows the syntax that families.yaml uses, not all of `re`.
    """
    runs, run, depth, at = [""], "", 0, 0
    while at < len(regex):
        token = _TOKEN.match(regex, at)
        assert token is not None
        at = token.end()
        literal = str(token[1] or token[3] or "")
        if regex[token.start()] in "()":
            depth += 1 if literal == "(" else -1
            runs, run = [*runs, run], ""
        elif depth or token[0] in (r"\b", r"\B"):
            continue
        elif literal:
            run += literal
        else:
            if token[2] and token[2] != "+":  # the character before may be missing
                run = run[:-1]
                at = regex.index("}", at) + 1 if token[2] == "{" else at
            runs, run = [*runs, run], ""
    return max((*runs, run), key=len)


def of_line(text: str) -> LineMeaning | None:
    """What a line tells that ends no traceback; None if it tells nothing."""
    exception = _EXCEPTION.match(text)
    if exception is not None and (exception[1] in table().types or _USUAL_NAME.search(exception[1])):
        return of_exception(text, ())
    meaning = table().match(text)
    return _with_sizes(meaning, text) if meaning is not None else None


def of_exception(text: str, frames: tuple[TracebackFrame, ...]) -> LineMeaning:
    """What an exception tells. frames: the last ones of its traceback, the innermost last; () if none were printed."""
    name = match[1] if (match := _EXCEPTION.match(text)) else ""
    typed = table().type_of(name)
    meaning = table().match(text)
    family, signs = _of_frames(name, text, frames)
    if meaning is not None and meaning.weight is not Weight.ANY:
        more = (typed is not None and typed.family is meaning.family) + (family is meaning.family)
        return _with_sizes(replace(meaning, signs=meaning.signs + more), text)
    if typed is not None:
        return replace(typed, signs=typed.signs + (family is typed.family))
    told = (table().type_of(quoted) for quoted in _QUOTED.findall(text))
    if (cause := next((one for one in told if one is not None and one.weight is Weight.CAUSE), None)) is not None:
        return cause
    if family is FailureFamily.UNKNOWN and meaning is not None:  # words that prove nothing
        return meaning
    note = _SIZES_NOTE if family is FailureFamily.CONFIGURATION and _SIZES_DIFFER.search(text) else ""
    return _with_sizes(LineMeaning(family, Weight.ANY, signs, note=note), text)


def _of_frames(name: str, text: str, frames: tuple[TracebackFrame, ...]) -> tuple[FailureFamily, int]:
    """The family of an exception by who raised it and who called, and how many signs say so."""
    sizes = name == "RuntimeError" and bool(_SIZES_DIFFER.search(text)) and len(_SIZES.findall(text)) > 1
    of_tensors = name == "RuntimeError" and not sizes and bool(_OF_TENSORS.search(text))
    mistake = name in _OWN_MISTAKES or of_tensors or bool(_OF_PYTHON.search(text))
    check = name in _CHECKS and not mistake and bool(_ASKS.search(text))
    if not frames:
        given = FailureFamily.CONFIGURATION if check or sizes else FailureFamily.UNKNOWN
        return (FailureFamily.CODE, 1) if mistake else (given, 0)
    if not mistake and (name == "TimeoutError" or _WAITED.search(text)):  # what it waited for is not known
        return FailureFamily.UNKNOWN, 0
    last, caller = frames[-1], frames[-2] if len(frames) > 1 else None
    no_such_name = bool(_NO_SUCH_NAME.search(text)) and "NoneType" not in text
    if no_such_name and "instantiate" in last.path:  # an object that is made from the configuration
        return FailureFamily.CONFIGURATION, 1
    if last.is_own:
        if no_such_name:  # a slip, or a package of another version
            return FailureFamily.ENVIRONMENT if _MODULE_LACKS.search(text) else FailureFamily.CODE, 1
        if mistake:
            return FailureFamily.CODE, 2
        return (FailureFamily.CONFIGURATION, 1) if check else (FailureFamily.CODE, 1)
    if last.function == "<module>" or "<frozen importlib" in last.path:  # it fails while it is imported
        return FailureFamily.ENVIRONMENT, 1
    called_by_us = caller is None or caller.is_own
    if no_such_name:  # a package calls another one, or itself, in vain
        return (FailureFamily.CODE, 1) if called_by_us else (FailureFamily.ENVIRONMENT, 1)
    if check or name in ("ValueError", "AssertionError"):  # a library's check of what it was given
        return FailureFamily.CONFIGURATION, 1 + check
    if mistake:
        return FailureFamily.CODE, int(called_by_us)
    if sizes:
        return FailureFamily.CONFIGURATION, 1
    return (FailureFamily.NETWORK, 1) if _OF_NETWORK.search(last.path) else (FailureFamily.UNKNOWN, 0)


def _with_sizes(meaning: LineMeaning, text: str) -> LineMeaning:
    """With the two sizes in its note that do not fit."""
    sizes = _SIZES.findall(text) if meaning.note == _SIZES_NOTE else ()
    return replace(meaning, note=f"{_SIZES_NOTE}: {sizes[0]} and {sizes[1]}") if len(sizes) == 2 else meaning

"""One entry of a person's queue: read, checked, and turned into a hypothesis.

    - slug: wide-clip                     # optional; made from the overrides or the files
      sentence: a wider clip explores more
      overrides: {clip_high: 0.4}         # dotted or nested recipe keys; `set:` is another name for it
      files:                              # path in the repository: the whole new text, or the file that holds it
        prompt.txt: |
          Think first.
        src/reward.py: {from: new/reward.py}
      patches: [reward.diff]              # unified diffs
      blueprint: other.md                 # instead of the campaign's
      parent: baseline                    # best (default), baseline, or the slug of an idea
      expected: +1 point of pass@1

Paths of files to read are relative to the queue file. Only values are returned; each Fault is a sentence for the
person who wrote the entry, with the keys that lead to what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from autoresearch.core.agents.proposals import is_inside
from autoresearch.core.blueprint.finding import errors
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.campaign import overrides
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.space import on_one_line
from autoresearch.core.keys import in_known_words, nearest
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.records.hostile import read_readable
from autoresearch.runner.masking import mask_text

QUEUE = "queue"
FROM = "from"
ENTRY: dict[str, dict[str, Any]] = {
    "slug": {"type": "string", "description": "its short name; else made from what it changes"},
    "sentence": {"type": "string", "description": "why it may win"},
    "overrides": {"type": "object", "description": "recipe keys and their new values", "examples": [{"lr": 0.001}]},
    "set": {"type": "object", "description": "another name for overrides"},
    "files": {"type": "object", "description": "path in the repository: the new text, or {from: FILE}",
              "examples": [{"path/in/repository": "the whole new text"}]},
    "patches": {"type": "array", "items": {"type": "string"}, "description": "files of unified diffs",
                "examples": [["change.diff"]]},
    "blueprint": {"type": "string", "description": "instead of the campaign's"},
    "parent": {"type": "string", "description": "best (the default), baseline, or the slug of an idea"},
    "expected": {"type": "string", "description": "what is expected of it"},
}  # fmt: skip
"""Every key of an entry, as its JSON schema; `_misshapen` holds an entry against it."""
_FORMS: dict[str, tuple[type, str]] = {
    "string": (str, "is no text; put it in quotes"),
    "object": (Mapping, "is no mapping"),
    "array": (list, "is no list of paths"),
}

_OUTSIDE = "is no path inside the repository"


@dataclass(frozen=True, slots=True)
class EntryFault:
    """One thing that is wrong with an entry; `keys` lead to it from the entry, `line` is of a blueprint's own file."""

    message: str
    keys: tuple[str | int, ...] = ()
    line: int = 0


class Broken(ValueError):  # noqa: N818 - what the entry is
    """This entry cannot be proposed as it is; `faults` says everything that is wrong with it."""

    def __init__(self, *entry_faults: EntryFault) -> None:
        super().__init__("; ".join(fault.message for fault in entry_faults))
        self.faults = entry_faults


def token_of(entry: object) -> str:
    """What the entry is called for good: its slug, else 12 digits of its content."""
    if isinstance(entry, Mapping) and isinstance(entry.get("slug"), str) and entry["slug"].strip():
        return slugify(entry["slug"])
    return sha256(overrides.canonical(_spelled_out(entry)).encode()).hexdigest()[:12]


def from_entry(entry: object, folder: Path) -> Hypothesis:
    """The idea that an entry of a YAML list describes; the files it names are read now. Raises Broken."""
    if not isinstance(entry, Mapping):
        raise Broken(EntryFault("it is no mapping; write `- overrides: {key: value}`"))
    return _EntryReader(_spelled_out(entry), folder).hypothesis()


def _spelled_out(entry: Any) -> Any:
    """The same entry with our words for others, such as `overrides` for `set`, as options of commands call it."""
    return in_known_words(entry, ENTRY.keys() - {"set"}) if isinstance(entry, Mapping) else entry


def from_blueprint(path: Path) -> Hypothesis:
    """The idea that a blueprint of a queue folder describes. Raises Broken."""
    text = _read(path)
    if faults := _blueprint_faults(text, path.name):
        raise Broken(*faults)
    slug = slugify(path.stem)
    if slug in (BASELINE, BEST):
        raise Broken(EntryFault(f"an idea cannot be called `{slug}`; rename the file"))
    blueprint = parse_blueprint(text.encode(), path.name)
    sentence = " ".join((blueprint.purpose or blueprint.title or path.stem).split())
    return Hypothesis(slug=slug, sentence=sentence, blueprint=text, proposer=QUEUE, token=path.name)


def found_from_anywhere(entry: Any, folder: Path) -> Any:
    """The same entry, the paths of the files that it names absolute."""
    if not isinstance(entry, Mapping):
        return entry

    def absolute(source: Any) -> Any:
        return str(folder / source) if isinstance(source, str) and source else source

    same = dict(_spelled_out(entry))
    if isinstance(same.get("files"), Mapping):
        same["files"] = {
            target: {**value, FROM: absolute(value[FROM])} if isinstance(value, Mapping) and FROM in value else value
            for target, value in same["files"].items()
        }
    if isinstance(same.get("patches"), list):
        same["patches"] = [absolute(item) for item in same["patches"]]
    if "blueprint" in same:
        same["blueprint"] = absolute(same["blueprint"])
    return same


def _misshapen(entry: Mapping[Any, Any]) -> Iterator[EntryFault]:
    """What is not as the schema has it."""
    for word, value in entry.items():
        if word not in ENTRY or word == "set":
            near = nearest(str(word), ENTRY.keys() - {"set"})
            known = f"write `{near}`" if near else f"known are {', '.join(ENTRY)}"
            yield EntryFault(f"`{word}` is no key of an entry; {known}", (str(word),))
            continue
        form, otherwise = _FORMS[ENTRY[word]["type"]]
        example = "".join(f"; write `{word}: {on_one_line(one)}`" for one in ENTRY[word].get("examples", ()))
        if not isinstance(value, form):
            yield EntryFault(f"`{word}` {otherwise}{example}", (word,))
        for n, item in enumerate(value if form is list and isinstance(value, list) else ()):
            if not isinstance(item, str):
                yield EntryFault(f"{item!r} is no path of a patch{example}", (word, n))


class _EntryReader:
    """Reads what has the form of the schema in one entry, and notes all that is wrong with it."""

    def __init__(self, entry: Mapping[Any, Any], folder: Path) -> None:
        self.folder, self.faults = folder, list(_misshapen(entry))
        wrong = {fault.keys[0] for fault in self.faults}
        self.entry = {word: value for word, value in entry.items() if word not in wrong}
        self.whole = entry

    def hypothesis(self) -> Hypothesis:
        changes, files, patches = self.overrides(), self.files(), self.patches()
        blueprint = self.blueprint()
        slug = self.slug(changes)
        if not (self.faults or changes or files or patches or blueprint):
            self.wrong("it changes nothing; give it `overrides`, `files`, `patches` or a `blueprint`")
        if self.faults:
            raise Broken(*self.faults)
        return Hypothesis(
            slug=slug,
            sentence=self.text("sentence") or self.sentence(changes),
            parent=slugify(self.text("parent")) if self.text("parent") else BEST,
            overrides=changes,
            files=files,
            patches=patches,
            blueprint=blueprint,
            expected=self.text("expected"),
            proposer=QUEUE,
            token=token_of(self.whole),
        )

    def wrong(self, message: str, *keys: str | int) -> None:
        self.faults.append(EntryFault(message, keys))

    def text(self, key: str) -> str:
        return str(self.entry.get(key, "")).strip()

    def overrides(self) -> dict[str, object]:
        given = self.entry.get("overrides", {})
        changes = overrides.flatten({str(key): value for key, value in given.items()})
        for name, value in changes.items():
            if isinstance(value, str) and mask_text(f"{name}={value}") != f"{name}={value}":
                told = "holds what looks like a secret, and is committed; let the trainer read a variable"
                self.wrong(f"`{name}` {told}", "overrides")
        return changes

    def files(self) -> dict[str, str]:
        texts = {}
        for target, value in self.entry.get("files", {}).items():
            if not is_inside(str(target)):
                self.wrong(f"{target} {_OUTSIDE}", "files", str(target))
            elif (text := self.whole_text(str(target), value)) is not None:
                texts[str(PurePosixPath(str(target)))] = text
        return texts

    def whole_text(self, target: str, value: object) -> str | None:
        """The new text of a file, as it stands in the entry or in the file that it names."""
        if isinstance(value, Mapping) and set(value) == {FROM} and isinstance(value[FROM], str):
            return self.read(value[FROM], "files", target)
        if not isinstance(value, str):
            hint = f"write the text as a block (`{target}: |`), or `{target}: {{{FROM}: FILE}}`"
            self.wrong(f"what {target} is to hold is no text; {hint}", "files", target)
        elif self.looks_like_a_path(value, target):
            hint = f"write `{{{FROM}: {value}}}` for what stands in that file, else end the text with a line end"
            self.wrong(f"{target} would hold nothing but the words `{value}`; {hint}", "files", target)
        else:
            return value
        return None

    def looks_like_a_path(self, value: str, target: str) -> bool:
        """Whether a name was written where the text itself is meant: nobody wants it as a file's only words."""
        if not value or len(value) > 300 or any(sign.isspace() for sign in value):
            return False
        suffix = PurePosixPath(target).suffix
        return bool(suffix and value.endswith(suffix)) or (self.folder / value).is_file()

    def patches(self) -> tuple[str, ...]:
        texts = []
        for n, name in enumerate(self.entry.get("patches", [])):
            if (text := self.read(name, "patches", n)) is None:
                continue
            texts.append(text)
            if "\n@@" not in f"\n{text}" and "GIT binary patch" not in text and "rename from " not in text:
                self.wrong(f"{name} is no unified diff", "patches", n)
            heads = re.findall(r"^(?:\+\+\+|---) \"?(?:[ab]/)?([^\t\n\"]+)", text, re.MULTILINE)  # of diff -u, too
            heads += re.findall(r"^(?:rename to |copy to |diff --git .+? \"?b/)([^\t\n\"]+)", text, re.MULTILINE)
            for path in sorted({*heads} - {"/dev/null"}):
                if not is_inside(path):
                    self.wrong(f"{name} changes {path}, which {_OUTSIDE}", "patches", n)
        return tuple(texts)

    def blueprint(self) -> str:
        name = self.text("blueprint")
        text = self.read(name, "blueprint") if name else None
        for fault in () if text is None else _blueprint_faults(text, name):
            self.wrong(f"{name}:{fault.line}: {fault.message}", "blueprint")
        return text or ""

    def read(self, source: str, *keys: str | int) -> str | None:
        try:
            return _read(self.folder / source)
        except Broken as broken:
            self.faults += [EntryFault(fault.message, keys) for fault in broken.faults]
            return None

    def slug(self, changes: Mapping[str, object]) -> str:
        if own := self.text("slug") or ("" if changes else self.text("sentence")):
            slug = slugify(own)
        else:
            slug = overrides.slug(changes) if changes else slugify(self.sentence(changes))
        if slug in (BASELINE, BEST):
            self.wrong(f"an idea cannot be called `{slug}`; give it another `slug`", "slug")
        return slug

    def sentence(self, changes: Mapping[str, object]) -> str:
        """What is changed, where nobody said why."""
        parts = [overrides.sentence(changes)] if changes else []
        parts += [f"changes {path}" for path in self.entry.get("files", ())]
        parts += [f"applies {path}" for path in self.entry.get("patches", ())]
        parts += [f"runs {self.text('blueprint')}"] if self.text("blueprint") else []
        return ", ".join(parts)


def _blueprint_faults(text: str, name: str) -> list[EntryFault]:
    try:
        parse_blueprint(text.encode(), name)
    except BlueprintInvalid as invalid:
        return [EntryFault(found.message, line=found.line) for found in errors(invalid.findings)]
    numbered = enumerate(text.splitlines(), 1)
    secret = "the line holds what looks like a secret, and is committed; write `$NAME`, and export NAME"
    return [EntryFault(secret, line=number) for number, line in numbered if mask_text(line) != line]


def _read(path: Path) -> str:
    try:
        return read_readable(path).decode()
    except OSError as failure:
        raise Broken(EntryFault(f"{path}: {failure.strerror or failure}")) from failure
    except UnicodeDecodeError as failure:
        raise Broken(EntryFault(f"{path} is no UTF-8 text")) from failure

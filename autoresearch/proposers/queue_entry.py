"""One entry of a person's queue: read, checked, and turned into a hypothesis.

    - slug: wide-clip                     # optional; made from the overrides or the files
      sentence: a wider clip explores more
      overrides: {clip_high: 0.4}         # dotted or nested recipe keys
      files: {src/reward.py: new/reward.py}   # path in the repository: file that holds the new text
      patches: [reward.diff]              # unified diffs
      blueprint: other.md                 # instead of the campaign's
      parent: baseline                    # best (default), baseline, or the slug of an idea
      expected: +1 point of pass@1
      simpler: false
      smoke: false

Paths of files to read are relative to the queue file. Only values are returned; the message of a Broken is a
sentence for the person who wrote the entry.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from autoresearch.core import overrides
from autoresearch.core.blueprint import BlueprintInvalid, parse_blueprint
from autoresearch.core.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.naming import slugify

QUEUE = "queue"
_TEXTS = ("slug", "sentence", "blueprint", "parent", "expected")
_FLAGS = ("simpler", "smoke")
_KEYS = (*_TEXTS, *_FLAGS, "overrides", "files", "patches")


class Broken(ValueError):  # noqa: N818 - what the entry is
    """This entry cannot be proposed as it is; the message says why."""


def token_of(entry: object) -> str:
    """What the entry is called for good: its slug, else 12 digits of its content."""
    if isinstance(entry, Mapping) and isinstance(entry.get("slug"), str) and entry["slug"].strip():
        return slugify(entry["slug"])
    return hashlib.sha256(overrides.canonical(entry).encode()).hexdigest()[:12]


def from_entry(entry: object, folder: Path) -> Hypothesis:
    """The idea that an entry of a YAML list describes; the files it names are read now. Raises Broken."""
    if not isinstance(entry, Mapping):
        raise Broken("it is no mapping; write `- overrides: {key: value}`")
    _check_words(entry)
    changes = _overrides(entry.get("overrides", {}))
    files, patches = _files(entry.get("files", {}), folder), _patches(entry.get("patches", []), folder)
    blueprint = _blueprint_text(folder / entry["blueprint"]) if entry.get("blueprint") else ""
    if not (changes or files or patches or blueprint):
        raise Broken("it changes nothing; give it `overrides`, `files`, `patches` or a `blueprint`")
    said = str(entry.get("sentence", "")).strip()
    return Hypothesis(
        slug=_slug(entry, changes),
        sentence=said or _sentence(entry, changes),
        parent=_parent(entry),
        overrides=changes,
        files=files,
        patches=patches,
        blueprint=blueprint,
        expected=str(entry.get("expected", "")),
        simpler=bool(entry.get("simpler", False)),
        smoke=bool(entry.get("smoke", False)),
        proposer=QUEUE,
        token=token_of(entry),
    )


def from_blueprint(path: Path) -> Hypothesis:
    """The idea that a blueprint of a queue folder describes. Raises Broken."""
    text = _blueprint_text(path)
    slug = slugify(path.stem)
    if slug in (BASELINE, BEST):
        raise Broken(f"an idea cannot be called `{slug}`; rename the file")
    found = parse_blueprint(text.encode(), path.name)
    sentence = " ".join((found.purpose or found.title or path.stem).split())
    return Hypothesis(slug=slug, sentence=sentence, blueprint=text, proposer=QUEUE, token=path.name)


def found_from_anywhere(entry: Any, folder: Path) -> Any:
    """The same entry, its paths absolute."""
    if not isinstance(entry, dict):
        return entry
    found = dict(entry)
    if isinstance(found.get("files"), dict):
        found["files"] = {target: str(folder / str(source)) for target, source in found["files"].items()}
    if isinstance(found.get("patches"), list):
        found["patches"] = [str(folder / str(item)) for item in found["patches"]]
    if isinstance(found.get("blueprint"), str):
        found["blueprint"] = str(folder / found["blueprint"])
    return found


def _check_words(entry: Mapping[Any, Any]) -> None:
    for word, value in entry.items():
        if word not in _KEYS:
            near = difflib.get_close_matches(str(word), _KEYS, 1)
            raise Broken(f"`{word}` is no word of an entry" + (f"; write `{near[0]}`" if near else ""))
        if word in _TEXTS and not isinstance(value, str):
            raise Broken(f"`{word}` is no text; put it in quotes")
        if word in _FLAGS and not isinstance(value, bool):
            raise Broken(f"`{word}` is neither true nor false")


def _overrides(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise Broken("`overrides` is no mapping; write `overrides: {lr: 0.001}`")
    return overrides.flatten({str(key): value for key, value in given.items()})


def _files(given: object, folder: Path) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise Broken("`files` is no mapping; write `files: {path/in/repository: file with the new text}`")
    for target in given:
        path = PurePosixPath(str(target))
        if path.is_absolute() or ".." in path.parts or path.parts[:1] in ((), (".git",)):
            raise Broken(f"{target} is no path inside the repository")
    return {str(PurePosixPath(str(target))): _read(folder / str(source)) for target, source in given.items()}


def _patches(given: object, folder: Path) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise Broken("`patches` is no list of paths; write `patches: [change.diff]`")
    texts = tuple(_read(folder / item) for item in given)
    for item, text in zip(given, texts, strict=True):
        if "\n@@" not in f"\n{text}" and "GIT binary patch" not in text and "rename from " not in text:
            raise Broken(f"{item} is no unified diff")
    return texts


def _blueprint_text(path: Path) -> str:
    text = _read(path)
    try:
        parse_blueprint(text.encode(), path.name)
    except BlueprintInvalid as invalid:
        raise Broken(invalid.message) from invalid
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as failure:
        raise Broken(f"{path}: {failure.strerror or failure}") from failure
    except UnicodeDecodeError as failure:
        raise Broken(f"{path} is no UTF-8 text") from failure


def _parent(entry: Mapping[Any, Any]) -> str:
    said = str(entry.get("parent", "")).strip()
    return slugify(said) if said else BEST


def _slug(entry: Mapping[Any, Any], changes: Mapping[str, object]) -> str:
    said = str(entry.get("slug", "")).strip()
    if said:
        slug = slugify(said)
    elif entry.get("sentence") and not changes:
        slug = slugify(str(entry["sentence"]))
    else:
        slug = overrides.slug(changes) if changes else slugify(_sentence(entry, changes))
    if slug in (BASELINE, BEST):
        raise Broken(f"an idea cannot be called `{slug}`; give it another `slug`")
    return slug


def _sentence(entry: Mapping[Any, Any], changes: Mapping[str, object]) -> str:
    """What is changed, where nobody said why."""
    parts = [overrides.sentence(changes)] if changes else []
    parts += [f"changes {path}" for path in entry.get("files", {})]
    parts += [f"applies {path}" for path in entry.get("patches", [])]
    parts += [f"runs {entry['blueprint']}"] if entry.get("blueprint") else []
    return ", ".join(parts)

"""The metrics that a Python program writes into files instead of printing them, found in its text.

A file is known where the text shows its path. What only the run knows of a path (a date, a name) is a `*` in it.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat
from autoresearch.core.text.python_text import called_name
from autoresearch.core.text.regex import later

_ANY = "*"
_DEFAULT_RUNS = "runs/*"  # of a SummaryWriter that is given no directory
_HOLES = later(r"%[-#]?[a-zA-Z]|%\d*d|\{[^{}]*\}")  # of strftime, of `%s`, of `format`
_TEXTS = {**SUFFIXES, ".txt": "jsonl", ".log": "jsonl"}  # a text file that is given JSON
_SAME_PATH = frozenset({"Path", "PurePath", "str", "abspath", "expanduser", "fspath", "realpath", "resolve"})
_HEADER = later(r"[A-Za-z_][\w/@. -]*(?:[,;\t][\w/@. -]+)+\n?")  # of a table
_DEEPEST = 20  # expressions inside expressions
_MOST_VARIABLES = 8  # from one to the next


@dataclass(frozen=True, slots=True)
class WrittenName:
    """A name in a file of metrics, the call that writes it, and the file."""

    name: str
    call: ast.Call
    file: Source


def written_names(tree: ast.AST, flags: Mapping[str, object]) -> Iterator[WrittenName]:
    """What a program writes into JSONL, JSON, CSV and event files. flags: its own, with their defaults."""
    yield from _Writing.of(tree, flags).names()


@dataclass(slots=True)
class _Writing:
    """A program's assignments, and the files that it opens, by the names of their variables."""

    tree: ast.AST
    flags: Mapping[str, object]
    values: dict[str, ast.expr] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)  # of dicts: `row["loss"] = x`
    files: dict[str, Source] = field(default_factory=dict)
    below: str = ""  # where it changes its directory to

    @classmethod
    def of(cls, tree: ast.AST, flags: Mapping[str, object]) -> _Writing:
        found = cls(tree, flags)
        bound = list[tuple[str, ast.expr]]()
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Subscript(value=target, slice=ast.Constant(value=str() as key))]):
                    found.keys.setdefault(called_name(target), []).append(key)
                case ast.Assign(targets=[target], value=value):
                    bound.append((called_name(target), value))
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    bound.append((called_name(target), value))
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    bound.append((called_name(target), value))
        found.values = dict(bound)
        moves = [one.args[0] for one in _calls(tree) if called_name(one.func) == "chdir" and len(one.args) == 1]
        found.below = found.path(moves[0]) if len(moves) == 1 else _ANY if moves or _moved_by_hydra(tree) else ""
        for name, value in bound:  # a writer of CSV stands behind the file that it is given
            if name and isinstance(value, ast.Call) and (source := found.opened(value)):
                found.files[name] = source
        return found

    def names(self) -> Iterator[WrittenName]:
        for call in _calls(self.tree):
            try:
                file, names = self.written(call)
            except RecursionError:  # a sum of thousands of texts
                continue
            if file:
                yield from (WrittenName(name, call, file) for name in dict.fromkeys(names))

    def written(self, call: ast.Call) -> tuple[Source | None, list[str]]:
        """The file that a call writes to, and the names that it writes there."""
        function, first = call.func, call.args[0] if call.args else None
        to = next((one.value for one in call.keywords if one.arg == "file"), None)
        if called_name(function) == "DictWriter" and first is not None:
            fields = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "fieldnames")]
            return self.file_of(first), self.keys_of(fields[0]) if fields else []
        if called_name(function) == "dump" and len(call.args) > 1:  # of json
            return self.file_of(call.args[1]), self.keys_of(call.args[0])
        if to is not None and first is not None:
            return self.file_of(to), self.names_in(first, self.file_of(to))
        if not isinstance(function, ast.Attribute) or first is None:
            return None, []
        file = self.file_of(function.value)
        match function.attr:
            case "write" | "write_text":
                file = file or self.source(function.value)
                return file, self.names_in(first, file)
            case "writerow":
                return file, self.keys_of(first)
            case "add_scalar":
                return file, [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
            case "to_csv" if isinstance(function.value, ast.Call) and function.value.args:
                return self.source(first), self.keys_of(function.value.args[0])
        return None, []

    def file_of(self, node: ast.expr) -> Source | None:
        return self.opened(node) if isinstance(node, ast.Call) else self.files.get(called_name(node))

    def opened(self, call: ast.Call) -> Source | None:
        """The file of metrics that a call opens for writing."""
        name, places = called_name(call.func), [*call.args[:1]]
        if name == "open":
            places += [one.value for one in call.keywords if one.arg == "mode"] + call.args[1:2]
            if not any(map(_is_mode, places)):
                return None
            if isinstance(call.func, ast.Attribute) and _is_mode(places[0]):  # `path.open("w")`
                return self.source(call.func.value)
            return self.source(places[0])
        if name == "SummaryWriter":
            places += [one.value for one in call.keywords if one.arg in ("log_dir", "logdir")]
            path = self.path(places[0]) if places else _DEFAULT_RUNS
            return Source(SourceFormat.TENSORBOARD, path) if _is_known(path) else None
        if name in ("writer", "DictWriter") and places:  # of csv
            file = self.file_of(places[0])
            return Source(SourceFormat.CSV, file.path) if file else None
        return None

    def source(self, node: ast.expr) -> Source | None:
        """The file at a path; None where its name says nothing, or its place is not known."""
        path = self.path(node)
        kind = _TEXTS.get(posixpath.splitext(path)[1], "")
        return Source(SourceFormat(kind), path) if kind and _is_known(path) else None

    def path(self, node: ast.expr, deep: int = 0) -> str:
        """The path that an expression means, with `*` for what is not known of it."""
        path = re.sub(r"\*[*_.-]*\*|\*+", _ANY, self._path(node, deep))
        return posixpath.normpath(posixpath.join(self.below, path)) if deep == 0 else path

    def _path(self, node: ast.expr, deep: int) -> str:
        def of(part: ast.expr) -> str:
            return self.path(part, deep + 1) if deep < _DEEPEST else _ANY

        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(map(of, parts))
            case ast.FormattedValue(value=value):
                return of(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return of(left) + of(right)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return posixpath.join(of(left), of(right))
            case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
                return _HOLES.sub(_ANY, text)
            case ast.Call(func=ast.Attribute(attr="join" | "joinpath", value=left), args=parts):
                whole = [*([] if called_name(left) in ("path", "os") else [left]), *parts]
                return posixpath.join(*map(of, whole)) if whole else _ANY
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str() as text))):
                return _HOLES.sub(_ANY, text)
            case ast.Call(func=function, args=args) if called_name(function) == "strftime":
                told = next((one.value for one in args if isinstance(one, ast.Constant)), _ANY)
                return _HOLES.sub(_ANY, str(told))
            case ast.Call(func=function, args=[first, *_]) if called_name(function) in _SAME_PATH:
                return of(first)
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name) if name in self.values:
                return of(self.values[name])
            case ast.Attribute(attr=name) if isinstance(self.flags.get(name), str):
                return str(self.flags[name]) or _ANY
        return _ANY

    def names_in(self, node: ast.expr, source: Source | None, seen: frozenset[str] = frozenset()) -> list[str]:
        """The names in a text: `json.dumps({...}) + "\\n"`, or the header of a table. seen: variables looked up."""
        table = source is not None and source.format is SourceFormat.CSV
        match node:
            case ast.BinOp(left=left, op=ast.Add()):
                return self.names_in(left, source, seen)
            case ast.JoinedStr(values=[ast.FormattedValue(value=value), *_]):
                return self.names_in(value, source, seen)
            case ast.Call(func=function, args=[first, *_]) if called_name(function) == "dumps" and not table:
                return self.keys_of(first)
            case ast.Constant(value=str() as text) if table and _HEADER.fullmatch(text):
                return [one.strip() for one in re.split(r"[,;\t]", text)]
            case ast.Name(id=name) if name in self.values and name not in seen and len(seen) < _MOST_VARIABLES:
                return self.names_in(self.values[name], source, seen | {name})
        return []

    def keys_of(self, node: ast.expr | None, above: str = "", seen: frozenset[str] = frozenset()) -> list[str]:
        """The keys of a dict, nested ones joined by slashes, or the texts of a list; [] where they are not shown.

        seen: the variables that were looked up.
        """
        match node:
            case ast.Dict(keys=keys, values=values):
                found = list[str]()
                for key, value in zip(keys, values, strict=True):
                    if key is None:  # `**row`
                        found += self.keys_of(value, above, seen)
                    elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                        inner = self.keys_of(value, f"{above}{key.value}/", seen) if isinstance(value, ast.Dict) else []
                        found += inner or [f"{above}{key.value}"]
                return found
            case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
                return [f"{above}{one.arg}" for one in keywords if one.arg]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [one.value for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            case ast.Name(id=name) if name in self.values and name not in seen and len(seen) < _MOST_VARIABLES:
                added = (f"{above}{key}" for key in self.keys.get(name, ()))
                return [*self.keys_of(self.values[name], above, seen | {name}), *added]
        return []


def _moved_by_hydra(tree: ast.AST) -> bool:
    """Whether Hydra starts a program in a directory that its configuration names, as it did before version 1.2."""
    mains = [call for call in _calls(tree) if ast.unparse(call.func) == "hydra.main"]
    bases = [ast.unparse(one.value) for call in mains for one in call.keywords if one.arg == "version_base"]
    return bool(mains) and (not bases or bases[0].strip("'\"") in ("1.0", "1.1"))


def _is_known(path: str) -> bool:
    """Whether a path begins with what is known of it."""
    return bool(path) and path[0] not in "*~" and not path.startswith("../")


def _is_mode(node: ast.expr) -> bool:
    """Whether it is the mode of a file that is written."""
    return isinstance(node, ast.Constant) and bool(re.fullmatch(r"[wax][bt+]*", str(node.value)))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))

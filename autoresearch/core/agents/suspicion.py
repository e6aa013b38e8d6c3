"""Suspicion: lines in an agent's diff that look like cheating or like an accident.

Nothing is refused here: paths and keys that determine an idea's score are protected by other means, and autoresearch
reads the metric itself. Findings are recorded and shown, so that a person checks before believing a result. Only
added lines count, and of each kind only the first one per file is reported.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from autoresearch.core.agents.protection import shown, why_protected
from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that an edit changes, as text before and after; "" where it does not exist."""

    path: str
    before: str
    after: str
    is_link: bool = False
    gone: bool = False

    @property
    def binary(self) -> bool:
        """Whether it is no text, as git tells it."""
        return "\0" in self.after

    @property
    def added(self) -> list[tuple[int, str]]:
        """Its lines that were not there before, each with its number; where they stood does not matter."""
        left, found = Counter(self.before.split("\n")), list[tuple[int, str]]()
        for number, line in enumerate(self.after.split("\n"), 1):
            if left[line] > 0:
                left[line] -= 1
            else:
                found.append((number, line))
        return found


def objective_lines(source: str, named: re.Pattern[str]) -> set[int]:
    """The lines where the metric is printed, where what is printed is assigned, and the functions that this calls.

    `named` finds code that prints or sets the metric. Empty for a text that is no Python.
    """
    tree = _syntax_tree(source)
    if tree is None:
        return set()
    rows = source.splitlines()
    nodes = list(ast.walk(tree))
    simple = [node for node in nodes if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Return)]
    printing = [one for one in simple if any(named.search(rows[line - 1]) for line in _lines(one))]
    names = {name for one in printing for name in _values(one, named)}
    assigning = [one for one in nodes if isinstance(one, ast.stmt) and names & set(_targets(one))]
    calls = (node for one in (*printing, *assigning) for node in ast.walk(one) if isinstance(node, ast.Call))
    called = {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    defined = [node for node in functions if node.name in called]
    return {line for one in (*printing, *assigning, *defined) for line in _lines(one)}


def _syntax_tree(text: str) -> ast.Module | None:
    """The tree of a program; None for a text that is no Python of today, or that is nested too deeply."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes, which are not ours to complain about
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _values(statement: ast.stmt, named: re.Pattern[str]) -> Iterator[str]:
    """The variables whose value follows the metric's name in a text, a mapping or a list of arguments; else all."""
    found: list[str] = []
    for node in ast.walk(statement):
        parts: list[tuple[ast.AST | None, ast.AST]] = []
        if isinstance(node, ast.JoinedStr):
            parts = list(zip(node.values, node.values[1:], strict=False))
        elif isinstance(node, ast.Dict):
            parts = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call):
            parts = list(zip(node.args, node.args[1:], strict=False))
        for before, value in parts:
            text = before.value if isinstance(before, ast.Constant) and isinstance(before.value, str) else ""
            if (words := text.rstrip(" :=").split()) and named.search(f'"{words[-1]}":'):
                found += _read(value)
    yield from found or _read(statement)


def _read(node: ast.AST) -> list[str]:
    functions = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and id(one) not in functions]


def _targets(statement: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


MOST = 20
LONG = 2000  # characters; longer lines are too long for a person to review
_CODE = (".py", ".pyx", ".pyi", ".sh", ".bash", ".zsh", ".ipynb", ".cu", ".cpp", ".c", ".js", ".ts", ".rs", ".go")
_PYTHON = (".py", ".pyx", ".pyi", ".ipynb")
_SHELL = (".sh", ".bash", ".zsh")
_SETTINGS = (".yaml", ".yml", ".toml", ".json", ".ini", ".cfg", ".conf")


@dataclass(frozen=True, slots=True)
class _Sign:
    """A kind of suspicion: what a line does that the pattern finds, in files of these kinds."""

    what: str
    pattern: re.Pattern[str]
    kinds: tuple[str, ...] = _PYTHON


_OUTPUT = (
    r"\b(?:print|pprint|add_scalars?|log_metrics?|log_dict|record\w*|track|emit|dumps?|write\w*|info|warning|debug|"
    r"error|critical)\s*\(|\b(?:wandb|mlflow|swanlab|self|trainer|tracker|run|experiment|\w*logger)\.log\w*\s*\("
)
_SIGNS = (
    _Sign(
        "names validation data",
        later(
            r"""["'][^"'\n]{0,200}(?<![A-Za-z])(?:val|valid|validation|held_?out|test|eval)(?![a-z])[^"'\n]{0,200}"""
            r"""\.(?:parquet|jsonl?|csv|tsv|arrow|npz?|pt|pkl|txt|h5)["']"""
            r"""|\b(?:val|valid|validation|eval|test)_(?:files?|data|dataset|dataloader|loader|set|split|prompts?)\b"""
            r"""|\bsplit\s*=\s*["'](?:test|val|validation|dev)\b""",
            re.IGNORECASE,
        ),
        _CODE,
    ),
    _Sign(
        "sets a seed",
        later(
            r"\b(?:manual_seed(?:_all)?|set_seed|seed_everything|seed_all|enable_full_determinism)\s*\("
            r"|\b(?:random|np\.random|numpy\.random)\.seed\s*\(|\b(?:default_rng|RandomState|PRNGKey)\s*\(\s*\d"
        ),
    ),
    _Sign(
        "replaces what others rely on",
        later(
            r"\bbuiltins\.\w+\s*=(?!=)|__builtins__|\b(?:setattr|patch\.object)\s*\(\s*(?:builtins|json|sys|os|time|math|"
            r"np|numpy|torch|logging|random|io)\b|\bmock\.patch\b|\bmonkeypatch\b"
            r"|^\s*(?:json|time|math|os|random|sys|io|logging|np|numpy|torch)\.[A-Za-z_]\w*\s*=(?![=])"
            r"|^(?:def\s+)?(?:print|open|input|exec|eval|__import__)\s*(?:=(?!=)|\((?=.*\)\s*(?:->.*)?:\s*$))"
            r"|^\s+(?:print|open|__import__)\s=\s|\bsys\.modules\s*\[|\bsys\.meta_path\b|\bsys\.settrace\b"
        ),
    ),
    _Sign(
        "writes to the output by other means than printing",
        later(
            r"\bsys\.(?:__)?std(?:out|err)(?:__)?(?:\.buffer)?\.(?:write|writelines)\s*\("
            r"|\bsys\.(?:__)?std(?:out|err)(?:__)?\s*=(?!=)|\bos\.write\s*\(\s*[12]\s*,|\bos\.dup2\s*\("
            r"|\bredirect_std(?:out|err)\s*\(|/dev/(?:stdout|stderr|fd/[12]|pts|tty)|/proc/(?:self|\d+)/fd"
        ),
        _PYTHON,
    ),
)
_ASSIGNED = later(
    r"""(?:^|[\s,({.\["'])(?P<name>[A-Za-z_]\w*)["']?\s*\]?\s*(?:\:\s*\w+\s*)?=(?![=])\s*(?P<value>[^,()\n#]*)"""
)
_SETTING = later(r"""^\s*(?:-\s+)?["']?(?P<name>[A-Za-z_][\w.-]*)["']?\s*[:=]\s*(?P<value>[^\s#].*)$""")
_NUMBER = later(r"(?<![\w.])\d")
_STARTING = later(r"\s*[01]\s*\Z")


SETS_OBJECTIVE = "prints, logs or sets a metric of the objective"


def flags(
    files: Iterable[ChangedFile], *, metrics: Collection[str] = (), validation: Collection[str] = ()
) -> tuple[str, ...]:
    """One sentence per suspicious change, with path and line: `train.py:12 sets a seed (and 2 lines more of the kind)`.

    `metrics`: the keys of the objective. `validation`: known paths and names of validation data, in addition to what
    looks like them.
    """
    sentences, named = list[str](), _named(metrics)
    for file in files:
        by_kind: dict[str, list[int]] = {}
        for what, line in (*_of(file, named, list(filter(None, validation))), *_touched(file, named)):
            by_kind.setdefault(what, []).append(line)
        for what, lines in by_kind.items():
            where = f"{shown(file.path)}:{lines[0]}" if lines[0] else shown(file.path)
            more = len(set(lines)) - 1
            sentences.append(f"{where} {what}" + (f" (and {counted(more, 'line')} more of the kind)" if more else ""))
    left = len(sentences) - MOST
    return tuple([*sentences[:MOST], f"and {left} more"] if left > 0 else sentences)


def _of(
    changed_file: ChangedFile, named: re.Pattern[str] | None, validation: Collection[str]
) -> Iterator[tuple[str, int]]:
    """Suspicious changes in one file as (what it does, line); line 0 is the file as a whole."""
    if changed_file.binary:
        yield "is binary: nobody can read what was changed", 0
    if changed_file.is_link:
        yield "is a symbolic link", 0
    kind = f".{changed_file.path.rpartition('.')[2].lower()}"
    kind = ".sh" if re.match(r"#!.*sh\b", changed_file.after) else kind
    if changed_file.binary or changed_file.is_link or kind not in (*_CODE, *_SETTINGS):
        return
    for number, whole in changed_file.added:
        text = whole[:LONG]
        if len(whole) > LONG and kind in _CODE:
            yield f"has a line of {len(whole):,} characters", number
        if text.lstrip().startswith(("#", "//")):
            continue
        for sign in _SIGNS:
            if kind in sign.kinds and sign.pattern.search(text):
                yield sign.what, number
        if kind in _CODE and named is not None and named.search(text):
            yield SETS_OBJECTIVE, number
        if any(name in text for name in validation):
            yield "names validation data", number
        if reason := _decides(kind, text):
            yield f"sets {reason}", number


def _touched(changed_file: ChangedFile, named: re.Pattern[str] | None) -> Iterator[tuple[str, int]]:
    """The first change of the lines that compute or print the objective, their order included."""
    if named is None or not changed_file.path.endswith(".py") or changed_file.gone or changed_file.binary:
        return
    before, after = (_objective(text, named) for text in (changed_file.before, changed_file.after))
    for old, new in zip_longest(before, after):
        if old is None or new is None or old[1] != new[1]:
            yield SETS_OBJECTIVE, (new or old)[0]
            return


def _objective(text: str, named: re.Pattern[str]) -> list[tuple[int, str]]:
    rows = text.splitlines()
    lines = ((number, rows[number - 1].strip()) for number in sorted(objective_lines(text, named)))
    return [line for line in lines if line[1]]


def _decides(kind: str, text: str) -> str:
    """Which protected quantity a line sets: a seed or the training length; in settings files, validation, too."""
    if kind in _SETTINGS:
        setting = _SETTING.match(text)
        return why_protected(setting["name"]) if setting else ""
    if kind not in (*_PYTHON, *_SHELL):
        return ""
    for match in _ASSIGNED.finditer(text):
        reason = why_protected(match["name"])
        if reason in ("a seed", "how long it trains") and _NUMBER.search(match["value"]):
            if reason == "how long it trains" and _STARTING.match(match["value"]):
                continue  # a counter's initial value
            return reason
    return ""


def _named(metrics: Collection[str]) -> re.Pattern[str] | None:
    """A pattern for code that prints, logs or assigns a metric by its name."""
    if not metrics:
        return None
    key = "(?:" + "|".join(re.escape(metric) for metric in sorted(metrics, key=len, reverse=True)) + ")"
    name = rf"(?<![\w/@.-]){key}(?![\w/@-])"
    return re.compile(
        rf"(?:{_OUTPUT}|\b(?:echo|printf)\b)[^\n]*{name}"
        rf"""|["']{key}["']\s*\]\s*[-+*/]?=(?!=)|["']{key}["']\s*:|["'][^"'\n]*{name}\s*[:=]"""
    )

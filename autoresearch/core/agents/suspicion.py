"""Suspicion: lines in an agent's diff that look like cheating or like an accident.

Nothing is refused here: paths and keys that determine an idea's score are protected by other means, and autoresearch
reads the metric itself. Findings are recorded and shown, so that a person checks before believing a result. Only
added lines count (and removed calls of evaluation), and of each kind only the first one per file is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from autoresearch.core.agents.protection import shown, why_protected
from autoresearch.core.text.python_text import called_name, syntax_tree
from autoresearch.core.text.regex import later

_HUNK = later(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEAD = later(r'diff --git ("?a/.*"?) ("?b/.*"?)\Z')
_ESCAPE = later(r"\\([0-7]{3}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class FileDiff:
    """One file of a diff. `added` and `removed`: line number (after and before) and text, in order."""

    path: str = ""  # after the change; before it, where the file is gone
    gone: bool = False
    binary: bool = False
    mode: str = ""  # where it is new or changed: 100755, 120000
    added: list[tuple[int, str]] = field(default_factory=list)
    removed: list[tuple[int, str]] = field(default_factory=list)


def files_of(patch: str) -> Iterator[FileDiff]:
    """The files of a patch as `git diff` writes it with prefixes a/ and b/.

    The lines of a hunk are counted, as they may look like headers.
    """
    diff: FileDiff | None = None
    lines = iter(patch.split("\n"))
    for line in lines:
        if line.startswith("diff --git "):
            if diff:
                yield diff
            diff = FileDiff(_path_in(line))
        elif diff is None:
            continue
        elif hunk := _HUNK.match(line):
            _read_hunk(diff, lines, *(int(part) if part is not None else 1 for part in hunk.groups()))
        else:
            _read_header(diff, line)
    if diff:
        yield diff


def _read_header(diff: FileDiff, line: str) -> None:
    word, _, rest = line.partition(" ")
    if line.startswith(("new file mode ", "new mode ")):
        diff.mode = line.rpartition(" ")[2]
    elif line.startswith("deleted file mode "):
        diff.gone = True
    elif line.startswith(("rename to ", "copy to ")):
        diff.path = unquoted(rest.partition(" ")[2])
    elif word == "+++" and (name := unquoted(rest.removesuffix("\t"))) != "/dev/null":
        diff.path = name.removeprefix("b/")
    elif line == "GIT binary patch" or line.startswith("Binary files "):
        diff.binary = True


def _read_hunk(diff: FileDiff, lines: Iterator[str], before: int, old: int, after: int, new: int) -> None:
    """The lines of one hunk: `old` of them were there before, `new` are there now."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        sign = line[:1]
        if sign == "+":
            diff.added.append((after, line[1:]))
        elif sign == "-":
            diff.removed.append((before, line[1:]))
        if sign == "\\":  # "\ No newline at end of file"
            continue
        before, old = before + (sign != "+"), old - (sign != "+")
        after, new = after + (sign != "-"), new - (sign != "-")


def unquoted(name: str) -> str:
    """The path that git printed, possibly in quotes and with escapes (core.quotePath)."""
    if not (len(name) > 1 and name[0] == name[-1] == '"'):
        return name
    raw = bytearray()
    at = 0
    body = name[1:-1]
    for escape in _ESCAPE.finditer(body):
        raw += body[at : escape.start()].encode("utf-8", "surrogateescape")
        sign = escape[1]
        raw += bytes([int(sign, 8)]) if len(sign) == 3 else _ESCAPED.get(sign, sign).encode()
        at = escape.end()
    raw += body[at:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def _path_in(line: str) -> str:
    """The path of a `diff --git` line; "" if it is ambiguous because of spaces: then a later header line names it."""
    head = _HEAD.match(line)
    if head and '"' in line:
        return unquoted(head[2]).removeprefix("b/")
    rest = line.removeprefix("diff --git ")
    half = len(rest) // 2
    first, second = rest[:half], rest[half + 1 :]
    same = re.sub(r"\Aa/", "", first) == re.sub(r"\Ab/", "", second)
    return second.removeprefix("b/") if same else ""


def objective_lines(source: str, named: re.Pattern[str]) -> set[int]:
    """The lines where the metric is printed, where what is printed is assigned, and the functions that this calls.

    `named` finds code that prints or sets the metric. Empty for a text that is no Python.
    """
    tree = syntax_tree(source)
    if tree is None:
        return set()
    rows = source.splitlines()
    nodes = list(ast.walk(tree))
    simple = [node for node in nodes if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Return)]
    printing = [one for one in simple if any(named.search(rows[line - 1]) for line in _lines(one))]
    names = {name for one in printing for name in _values(one, named)}
    assigning = [one for one in nodes if isinstance(one, ast.stmt) and names & set(_targets(one))]
    calls = (node for one in (*printing, *assigning) for node in ast.walk(one) if isinstance(node, ast.Call))
    called = {called_name(call.func) for call in calls}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    defined = [node for node in functions if node.name in called]
    return {line for one in (*printing, *assigning, *defined) for line in _lines(one)}


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
        "reads what the harness tells the run, or its records",
        later(
            r"\bAUTORESEARCH_[A-Z]|reports/auto_research|\bfinish\.flag\b|[\"'/]results\.tsv\b|[\"'/]exit\.json\b"
            r"|[\"'/]run\.log\b|\bajet_\w+_[0-9a-f]{6}\b"
        ),
        _CODE,
    ),
    _Sign(
        "writes to a place outside of the worktree",
        later(
            r"""\bopen\s*\(\s*[rbf]{0,2}["'](?:/|~|\.\./)[^"'\n]*["']\s*,\s*(?:mode\s*=\s*)?["'][^"']*[wax+]"""
            r"""|Path\s*\(\s*[rf]{0,2}["'](?:/|~|\.\./)[^"'\n]*["']\s*\)[^\n#]*\.(?:write_|mkdir|touch|unlink|rename|open\(["'][wax])"""
            r"""|\b(?:makedirs|mkdir|remove|unlink|rmtree|symlink|savez?|to_\w+|copy\w*|move|rename|replace|save_\w+|dump)\s*\("""
            r"""[^\n#]*[(,]\s*[rf]{0,2}["'](?:/(?!dev/)|~/|\.\./)"""
            r"""|\b(?:makedirs|mkdir|remove|unlink|rmtree|savez?|to_\w+|save_\w+)\s*\(\s*[rf]{0,2}["'](?:/|~/|\.\./)"""
        ),
    ),
    _Sign(
        "writes to a place outside of the worktree",
        later(r"(?:>>?\s*|\btee\s+(?:-a\s+)?|\b(?:rm|mkdir|touch)\s+(?:-\w+\s+)*)(?:/(?!dev/(?:null|std))|~/|\.\./)"),
        _SHELL,
    ),
    _Sign(
        "starts other programs",
        later(
            r"\bsubprocess\.(?:run|Popen|call|check_call|check_output|getoutput)\b|\bfrom\s+subprocess\s+import\b"
            r"|\bos\.(?:system|popen|fork|forkpty|kill|killpg|exec[lv]p?e?|spawn[lv]p?e?|posix_spawn)\s*\(|\bpty\.spawn\b"
        ),
    ),
    _Sign(
        "uses the network",
        later(
            r"\b(?:requests|httpx)\.(?:get|post|put|head|delete|request|Session|Client|AsyncClient)\s*\(|\burlopen\s*\("
            r"|\burllib\.request\b|\bsocket\.(?:socket|create_connection)\s*\(|\baiohttp\.|\bhttp\.client\b"
            r"|\b(?:snapshot_download|hf_hub_download|urlretrieve)\s*\("
        ),
    ),
    _Sign("uses the network", later(r"(?:^|[;&|(`]\s*|\s)(?:curl|wget|nc|scp|rsync|ssh)\s+\S"), _SHELL),
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
    _Sign("sleeps", later(r"\b(?:time|asyncio)\.sleep\s*\(|^\s*sleep\s*\(\s*[\d.]+\s*\)")),
    _Sign("sleeps", later(r"(?:^|[;&|]\s*)\s*sleep\s+[\d$]"), _SHELL),
    _Sign(
        "changes how it is logged",
        later(
            r"\blogging\.(?:basicConfig|Formatter|disable|StreamHandler|FileHandler)\s*\(|\.(?:setFormatter|addHandler|"
            r"removeHandler)\s*\(|\blogger\.(?:add|remove|configure|handlers)\b\s*[(=]|\bdictConfig\s*\("
        ),
    ),
    _Sign(
        "switches evaluation off, or makes it rarer",
        later(
            r"\b(?:do_eval|val_before_train|val_at_start|val_at_end|run_validation|do_validation|evaluate|run_eval)"
            r"""["']?\]?\s*[:=]\s*["']?(?:False|false|None|null|no|off|0)\b"""
            r"""|\b(?:eval_strategy|evaluation_strategy)["']?\]?\s*[:=]\s*["']?no\b"""
            r"""|\b(?:test_freq|eval_steps|eval_interval|eval_every|eval_freq|val_period|val_interval|"""
            r"""val_check_interval|val_every)["']?\]?\s*[:=]\s*-?\d"""
        ),
        (*_PYTHON, *_SHELL, *_SETTINGS),
    ),
)
_EVALUATES = later(
    r"(?<!def )(?<!\w)(?:evaluate|validate|_validate|run_eval\w*|run_validation|do_eval\w*|eval_\w+)\s*\("
)
_ASSIGNED = later(
    r"""(?:^|[\s,({.\["'])(?P<name>[A-Za-z_]\w*)["']?\s*\]?\s*(?:\:\s*\w+\s*)?=(?![=])\s*(?P<value>[^,()\n#]*)"""
)
_SETTING = later(r"""^\s*(?:-\s+)?["']?(?P<name>[A-Za-z_][\w.-]*)["']?\s*[:=]\s*(?P<value>[^\s#].*)$""")
_NUMBER = later(r"(?<![\w.])\d")
_STARTING = later(r"\s*[01]\s*\Z")


SETS_OBJECTIVE = "prints, logs or sets a metric of the objective"


def flags(
    patch: str,
    *,
    metrics: Collection[str] = (),
    validation: Collection[str] = (),
    text_of: Callable[[str], tuple[str, str]] = lambda path: ("", ""),
) -> tuple[str, ...]:
    """One sentence per suspicious change, with path and line: `train.py:12 sets a seed (and 2 lines more of the kind)`.

    `patch`: a unified diff. `metrics`: the keys of the objective. `validation`: known paths and names of validation
    data, in addition to what looks like them. `text_of`: a file before and after the change.
    """
    sentences: list[str] = []
    for diff in files_of(patch):
        by_kind: dict[str, list[int]] = {}
        touched = _touched(diff, _named(metrics), text_of)
        for what, line in (*_of(diff, _named(metrics), [name for name in validation if name]), *touched):
            by_kind.setdefault(what, []).append(line)
        for what, lines in by_kind.items():
            where = f"{shown(diff.path)}:{lines[0]}" if lines[0] else shown(diff.path)
            more = len(set(lines)) - 1
            sentences.append(
                f"{where} {what}" + (f" (and {more} line{'s' if more > 1 else ''} more of the kind)" * (more > 0))
            )
    left = len(sentences) - MOST
    return tuple([*sentences[:MOST], f"and {left} more"] if left > 0 else sentences)


def _of(diff: FileDiff, named: re.Pattern[str] | None, validation: Collection[str]) -> Iterator[tuple[str, int]]:
    """Suspicious changes in one file as (what it does, line); line 0 is the file as a whole."""
    yield from _whole(diff)
    if diff.gone:
        return
    kind = f".{diff.path.rpartition('.')[2].lower()}"
    kind = ".sh" if diff.added[:1] and diff.added[0][0] == 1 and re.match(r"#!.*sh\b", diff.added[0][1]) else kind
    for number, whole in diff.added:
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


def _touched(
    diff: FileDiff, named: re.Pattern[str] | None, text_of: Callable[[str], tuple[str, str]]
) -> Iterator[tuple[str, int]]:
    """Changes of the lines that compute or print the objective."""
    if named is None or not diff.path.endswith(".py") or diff.gone or diff.binary:
        return
    before, after = (objective_lines(text, named) for text in text_of(diff.path))
    yield from ((SETS_OBJECTIVE, number) for number, text in diff.added if number in after and text.strip())
    yield from ((SETS_OBJECTIVE, number) for number, text in diff.removed if number in before and text.strip())


def _whole(diff: FileDiff) -> Iterator[tuple[str, int]]:
    if diff.binary and not diff.gone:
        yield "is binary: nobody can read what was changed", 0
    if diff.mode == "120000":
        yield "is a symbolic link", 0
    before = [number for number, text in diff.removed if _EVALUATES.search(text)]
    if diff.gone or len(before) > sum(1 for _, text in diff.added if _EVALUATES.search(text)):
        yield from (("takes out a call of evaluation", number) for number in before[:1])


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

"""The flags that a Python program takes, with their defaults: from its text, else from its own `--help`.

The text is parsed, not run: calls of argparse, click, absl, fields of a dataclass for tyro, simple-parsing, pyrallis
and HfArgumentParser, arguments of functions for typer and fire. `--help` is asked only of a program whose text uses
one of these (or hydra, which then prints its configuration), as any other would begin to train.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.text.python_text import as_program, called_name, definitions, syntax_tree
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.trainers.command_settings import value_of

_EXITS = frozenset({"exit", "_exit", "quit"})
HELP_S = 60.0  # imports of torch and transformers take half of it on a cold disk
_BYTES = 1 << 20
_PARSERS = later(
    r"(?m)^[ \t]*(?:from|import)[ \t]+(?:[\w, \t]*,[ \t]*)?"
    r"((?:config)?argparse|click|typer|tyro|hydra|simple_parsing|jsonargparse|pyrallis|draccus|absl|fire)\b"
    r"|\b(HfArgumentParser|TrlParser)\b|\b(tf\.(?:app\.)?flags)\b"
)
_OF_CALLS = frozenset({"add_argument", "option", "Option"})
_OF_FIELDS = frozenset(
    {"tyro", "simple_parsing", "HfArgumentParser", "TrlParser", "jsonargparse", "pyrallis", "draccus"}
)
_OF_FUNCTIONS = frozenset({"typer", "fire", "tyro", "jsonargparse"})
_MAKES = later(r"(?i)command|callback|main|\b(?:cli|app)\b")  # a decorator, not `torch.no_grad()`
_MAKE_COMMANDS = frozenset({"Fire", "run", "cli", "CLI", "auto_cli"})
_DATA = later(
    r"(?i)(?:.*_)?(?:data(?:set)?s?|corpus|train(?:ing)?|inputs?|root)_?(?:path|dir|file|root|folder|json|csv|pkl|list)?"
    r"|(?:(?:file|im(?:age|g))s?_?)?list"
)
_PATH = later(
    r"(?:~?/|\.{1,2}/|data/|path/to/)[^$*{}<>]+|(?!\w+:)[^$*{}<>]+\.(?:txt|jsonl?|csv|tsv|np[yz]|pkl|h5|hdf5|bin|pt)"
)
_READS = later(r"(?i)open|read_\w+|loadtxt|\w*data\w*")
_DOWNLOADS = later(r"(?i)download\w* ?[=(]")
_IN_DATA = later(r"(?:\.{0,2}/)?data(?:sets?)?/[\w./-]+\Z")
_OUTPUT = later(r"(?i)(?:\./)?(?:exp|out|save|log|result|run|ckpt|checkpoint)\w*(?:/|\Z)")  # a path
_WRITTEN = later(r"(?i)out|save|log|result|ckpt|checkpoint|cache|export")
_HELP_FLAG = later(
    r"(?m)^[ \t│|]{1,12}(?:[*][ \t]+)?(?:-\w(?:[ \t]+[A-Z_<>\[\]]+)?,?[ \t]+)?--(?P<key>[A-Za-z][\w.-]*)"
)
_HELP_DEFAULT = later(r"[\[(][Dd]efault(?:s to)?[:=]?\s*(?P<value>[^\])]{1,60})[\])]")
_FIRST_KEY = later(r"(?m)^\w[\w-]*:(?: |$)")


def parser_of(source: str) -> str:
    """The library that reads the program's command line; "" if none that we know does."""
    match = _PARSERS.search(source)
    return next(filter(None, match.groups())) if match else ""


@lru_cache(maxsize=256)  # of each module of a program
def flags_in(source: str, reached: frozenset[str] | None = None) -> dict[str, object]:
    """The flags that stand in a Python text, as spelled without `--`, with their defaults (None: unknown).

    reached: of a module, the functions and classes that the program reaches; None: all.
    """
    if not parser_of(source):
        return {}
    tree = syntax_tree(source)
    if tree is None:
        return {}
    used = {next(filter(None, match.groups())) for match in _PARSERS.finditer(source)}
    found: dict[str, object] = {}
    inside = {} if reached is None else definitions(tree)
    alone = as_program(tree)
    for node in ast.walk(tree):
        if reached is not None and (inside.get(node, "") not in reached or node in alone):
            continue
        if isinstance(node, ast.Call):
            found.update(_of_call(node))
        elif isinstance(node, ast.ClassDef) and used & _OF_FIELDS:
            found.update(_of_fields(node))
    functions = command_functions(tree) if used & _OF_FUNCTIONS else []
    for function in functions if reached is None else [one for one in functions if one.name in reached - {"main"}]:
        found.update(_of_function(function, dashes="typer" in used))
    return found


def command_functions(tree: ast.AST) -> list[ast.FunctionDef]:
    """The functions whose arguments may be flags: `main`, decorated commands, and `train` of `fire.Fire(train)`."""
    made = [one.args[0] for one in ast.walk(tree) if isinstance(one, ast.Call) and one.args
            if called_name(one.func) in _MAKE_COMMANDS]  # fmt: skip
    named = {"main", *(one.id for one in made if isinstance(one, ast.Name))}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    decorated = {node: " ".join(map(ast.unparse, node.decorator_list)) for node in functions}
    return [node for node, text in decorated.items() if node.name in named or _MAKES.search(text)]


def other_names(source: str, words: Sequence[str]) -> set[str]:
    """Of each flag with several names (`--lr`, `--learning-rate`), all but the one that is typed, or the first."""
    tree = syntax_tree(source) if parser_of(source) else None
    typed = {word.partition("=")[0].lstrip("-") for word in words}
    others = set[str]()
    for node in ast.walk(tree) if tree else ():
        names = [name for name, _ in _of_call(node)] if isinstance(node, ast.Call) else []
        used = next((name for name in names if name.lstrip("-") in typed), names[0] if names else "")
        others.update(name for name in names if name != used)
    return others


@lru_cache(maxsize=256)
def short_names(source: str) -> dict[str, list[str]]:
    """The short name of each flag, without its dash, and its long ones as Python has them: `v` -> `verbose`."""
    tree = syntax_tree(source) if parser_of(source) else None
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and called_name(node.func) in _OF_CALLS:
            texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            long = [text[2:].replace("-", "_") for text in texts if text[:2] == "--"]
            found.update({text[1:]: long for text in texts if text[:1] == "-" != text[1:2]})
    return found


def missing_in(source: str, words: Sequence[str], used: Collection[str] | None = None) -> list[str]:
    """The flags and operands that a program's text demands and that these words, behind the program, do not give it.

    [] where only the run knows the words. used: of a module, the functions that the program reaches; None: all.
    """
    tree = None if any(set(word) & set("$`") or word.startswith("@") for word in words) else syntax_tree(source)
    if tree is None or not parser_of(source):
        return _missing_operands(tree, len(words)) if tree and used is None else []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if used is not None:
        inside = definitions(tree)
        calls = [call for call in calls if inside.get(call) in used]
    of_click = sum(called_name(call.func) == "command" for call in calls) == 1  # of several, one is called
    demanding = ("add_argument", "option") if of_click else ("add_argument",)
    given = {word.partition("=")[0].replace("_", "-") for word in words}
    missing = list[str]()
    for call in calls:
        name = called_name(call.func)
        texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        keywords = {one.arg: _literal(one.value) for one in call.keywords}
        if name == "add_argument" and texts and texts[0][:1] != "-":
            if not given and keywords.get("nargs") not in ("?", "*") and "default" not in keywords:
                missing.append(texts[0].upper())
        elif name in demanding and keywords.get("required") is True:
            texts = [text for text in texts if text[:1] == "-"]  # click may have a name in Python, too
            if texts and "--local_rank" not in texts and not given & {text.replace("_", "-") for text in texts}:
                missing.append(max(texts, key=len))
        elif name in ("mark_flag_as_required", "mark_flags_as_required") and call.args:
            named = _literal(call.args[0])
            flags = [f"--{flag}" for flag in (named if isinstance(named, list) else [named])]
            missing += [flag for flag in flags if flag.replace("_", "-") not in given]
    return missing


@lru_cache(maxsize=256)
def unset_in(source: str) -> dict[str, bool]:
    """The flags of a text that are nothing unless they are given, in Python's names; True: it is compared with texts.

    `--mode` without a default is one, and `data_path: str = field(default=None)`.
    """
    tree = syntax_tree(source) if parser_of(source) else None
    nodes = [*ast.walk(tree)] if tree else []
    same = [one for one in nodes if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq)]
    compared = {called_name(one.left) for one in same if isinstance(_literal(one.comparators[0]), str)}
    found = list[str]()
    for node in nodes:
        call = node.value if isinstance(node, ast.AnnAssign) else node
        keywords = {one.arg: one.value for one in call.keywords} if isinstance(call, ast.Call) else {}
        if ast.unparse(keywords.get("default", ast.Constant(None))) != "None":
            continue
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "default" in keywords:
            found.append(node.target.id)
        elif isinstance(node, ast.Call) and not {"action", "required", "nargs"} & keywords.keys():
            found += [name for name, _ in _of_call(node)][:1] if called_name(node.func) == "add_argument" else []
    return {name: name in compared for name in (one.lstrip("-").replace("-", "_") for one in found)}


@lru_cache(maxsize=256)
def named_paths(source: str) -> dict[str, int]:
    """The paths of data that a text names at its top, or opens to read, and their lines; none that it may download."""
    tree = None if _DOWNLOADS.search(source) else syntax_tree(source)
    if tree is None:
        return {}
    found, inside = dict[str, list[int]](), definitions(tree)
    every = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[value, *rest]) if _READS.fullmatch(called_name(function)):
                writes = called_name(function) == "open" and [*map(_literal, rest)] not in ([], ["r"], ["rb"])
                name = "" if writes else "data"
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.keyword(arg=str(name), value=value):
                name = "" if node in inside or name in ("default", "help") else name
            case _:
                continue
        text = _literal(value)
        if name and isinstance(text, str) and (_IN_DATA.match(text) or is_data(name, text)):
            found.setdefault(text, []).append(value.lineno)
    return {text: lines[0] for text, lines in found.items() if len(lines) == every.count(text)}  # no other use of it


def is_data(name: str, value: str) -> bool:
    """Whether a name says that its value is data, and the value looks like a path; or the value itself says so."""
    inside = _IN_DATA.match(value) and Path(value).suffix and not _WRITTEN.search(name)
    return bool(inside or (_DATA.fullmatch(name) and _PATH.fullmatch(value) and not _OUTPUT.match(value)))


def _missing_operands(tree: ast.AST, operands: int) -> list[str]:
    """The words that a program without a parser demands: by their count, or else by taking each of them."""
    counted, wanted = False, 0
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int() as n)]), body=body):
                inner = [node for one in body for node in ast.walk(one)]
                ends = any(called_name(node) in _EXITS or isinstance(node, ast.Raise) for node in inner)
                if ends and ast.unparse(left) == "len(sys.argv)" and isinstance(op, ast.NotEq | ast.Lt | ast.LtE):
                    wanted = max(wanted, n if isinstance(op, ast.LtE) else n - 1)
            case ast.Call(func=ast.Name(id="len"), args=[words]) if ast.unparse(words) in ("sys.argv", "argv"):
                counted = True
    taken = [node.slice.value for node in ast.walk(tree) if isinstance(node, ast.Subscript)
             and ast.unparse(node.value) == "sys.argv" and isinstance(node.slice, ast.Constant)
             and isinstance(node.slice.value, int)]  # fmt: skip
    most = wanted if counted or any(isinstance(node, ast.Try) for node in ast.walk(tree)) else max(taken, default=0)
    return [f"sys.argv[{n}]" for n in range(operands + 1, most + 1)]


def ask_help(
    program: Sequence[str],
    interpreter: Path,
    cwd: Path,
    environ: Mapping[str, str],
    overrides: Sequence[str] | None = None,
) -> dict[str, object]:
    """The flags that a program's `--help` names; {} if it does not answer in time.

    program: the words that start it behind the interpreter, `train.py` or `-m package.module`; it must be one of
    `parser_of`. overrides: of a program of hydra, which is asked by `--cfg job` for the keys of the configuration that
    they make. It sees no GPU.
    """
    words = [str(interpreter), *program, *(["--help"] if overrides is None else [*overrides, "--cfg", "job"])]
    quiet = {**environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    quiet |= {"PYTHONDONTWRITEBYTECODE": "1", "WANDB_MODE": "disabled"}  # it shall leave nothing behind
    try:
        with subprocess.Popen(
            words,
            cwd=cwd,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(timeout=HELP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # it began a session: the group is its own
                return {}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    text = out[:_BYTES].decode("utf-8", "replace")
    return flags_of_help(text) if overrides is None else _leaves(text)


def flags_of_help(text: str) -> dict[str, object]:
    """The flags in a help text, with the defaults that it names."""
    at = list(_HELP_FLAG.finditer(text))
    ends = [*(match.start() for match in at), len(text)][1:]
    found: dict[str, object] = {}
    for match, end in zip(at, ends, strict=True):
        default = _HELP_DEFAULT.search(text, match.end(), end)
        found[match["key"]] = value_of(" ".join(default["value"].replace("│", " ").split())) if default else None
    found.pop("help", None)
    return found


def _leaves(text: str) -> dict[str, object]:
    """The dotted keys of a configuration; what its program prints before, as it is imported, is left out."""
    first = _FIRST_KEY.search(text)
    try:
        return flatten(parse_mapping(text[first.start() if first else 0 :].encode(), "--cfg job"))
    except (AutoresearchError, RecursionError):
        return {}


def _of_call(node: ast.Call) -> Iterator[tuple[str, object]]:
    name = called_name(node.func)
    texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if name.startswith("DEFINE_") and texts:  # absl
        yield texts[0], _literal(node.args[1]) if len(node.args) > 1 else None
    elif name in _OF_CALLS:
        keywords = {one.arg: one.value for one in node.keywords}
        default = _literal(keywords.get("default"))
        action = _literal(keywords.get("action"))
        long = [text[2:].partition("/")[0] for text in texts if text.startswith("--")]
        for text in long or [text for text in texts if text.startswith("-") and len(text) > 2]:  # `-lr` keeps its dash
            yield text, (action == "store_false") if "store_" in str(action) else default


def _of_fields(node: ast.ClassDef) -> Iterator[tuple[str, object]]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            value = one.value
            if isinstance(value, ast.Call):  # field(default=0.1)
                value = next((k.value for k in value.keywords if k.arg == "default"), None)
            yield one.target.id, _literal(value)


def _of_function(node: ast.FunctionDef, *, dashes: bool) -> Iterator[tuple[str, object]]:
    arguments, defaults = node.args.args, node.args.defaults
    pairs = [*zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
    for argument, default in pairs:
        yield argument.arg.replace("_", "-") if dashes else argument.arg, _literal(default)


def _literal(node: ast.expr | None) -> object:
    """The value of a literal that a recipe could hold, or of a path of one; None for anything else."""
    node = node.args[0] if isinstance(node, ast.Call) and called_name(node.func) == "Path" and node.args[:1] else node
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    value = list(value) if isinstance(value, list | tuple) else value
    items = value if isinstance(value, list) else [value]
    return value if all(isinstance(item, str | int | float | bool) for item in items) else None

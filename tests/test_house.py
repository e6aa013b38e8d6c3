"""The architecture test: the rules of the house, kept by reading the source, never by running it.

Each rule is a function from sources to faults. They are applied to the package, and each is seen to fail on a small
bad source.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = "autoresearch"

# Every room, and the rooms it may import from; the leaf `runner` is open to everybody.
_LOW = ("errors", "plugins", "core", "records")
_SIDE = ("git_repo", "trainers", "launchers", "proposers", "agents", "readers")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "": (),
    "errors": (),
    "plugins": ("errors",),
    "core": ("errors",),
    "records": ("errors", "core"),
    **dict.fromkeys(_SIDE, _LOW),
    "agentjet": _LOW,  # on the side floor, and nobody imports it: the registry of trainers names it (docs/house.md)
    "lab": (*_LOW, *_SIDE),
    "commands": (*_LOW, *_SIDE, "lab"),
    "cli": (*_LOW, *_SIDE, "lab", "commands"),
    "__main__": ("cli",),
    "api": (*_LOW, *_SIDE, "lab", "commands"),  # of `commands` only the composition root, wiring.py
    "runner": (),
    "tinygrpo": (),
}
OPEN_TO_ALL = frozenset({"runner"})
FRONT = ("commands", "cli", "__main__", "runner", "tinygrpo")  # they may print
# Programs of their own, and what they import besides the standard library.
ALONE: dict[str, frozenset[str]] = {"runner": frozenset(), "tinygrpo": frozenset({"numpy", "yaml"})}

_PATTERNS = "autoresearch/core/agents/protection.py"
# One file owns each outside library: that file, or any single one below that folder.
OWNERS = {
    "libtmux": "autoresearch/launchers/tmux.py",
    "git": "autoresearch/git_repo/",
    "jinja2": "autoresearch/lab/render.py",
    "yaml": "autoresearch/lab/yaml_files.py",
    "psutil": "autoresearch/",
    "pandas": "autoresearch/",
    "optuna": "autoresearch/proposers/",
    "numpy": "autoresearch/",
    "matplotlib": "autoresearch/",
    "plotly": "autoresearch/",
    "pathspec": _PATTERNS,
}
# Data of the package, which is a constant as any other in the source, patterns, and matrices: they compute, and touch
# nothing.
PURE = frozenset(
    {
        ("autoresearch/core/diagnosis/failure.py", "yaml"),
        (_PATTERNS, "pathspec"),
        ("autoresearch/core/statistics/effects.py", "numpy"),
    }
)
# They cost 50 to 400 ms to import.
HEAVY = frozenset({"libtmux", "git", "pandas", "optuna", "jinja2", "numpy", "matplotlib", "plotly", "pathspec"})

_FILES = {"fcntl", "glob", "io", "logging", "mmap", "os", "shutil", "sys", "tempfile"}
_PROCESSES = {"asyncio", "multiprocessing", "signal", "subprocess", "threading"}
_WORLD = {"http", "random", "secrets", "select", "socket", "time", "urllib", "uuid"}
IMPURE = _FILES | _PROCESSES | _WORLD
PURE_PATHS = {"PurePath", "PurePosixPath"}
# Inventions of an earlier house that nobody else uses, and names that say nothing; each has a standard term.
INVENTED = re.compile(
    r"(warden|courier|crew|bench|berth|shelf|rhythm|bell|pile|heard|told|chronicle|premises|enclosure|shop|wishe|util"
    r"|utilitie|helper)s?",
    re.IGNORECASE,
)
# Names of parameters, fields and functions that say nothing of what they hold: a target, a directory, a result, ...
VAGUE = frozenset({"place", "places", "found", "said", "told", "wanted", "asked", "heard", "given"})
ON_DISK = frozenset(  # fields that are keys of files and of JSON output
    {"CampaignSpec.places", "Order.place", "Overview.places", "PlaceLine.place", "RunLine.place"}
)
WORKPLACE = re.compile(r"(?<!\w)/w" + r"ork/(main|wt|shared|steering|contract|\.library|\.mirror)")
MOST_LINES = 600
MOST_LINES_ALONE = 800
MOST_IMPORTS = 20  # of the house's own modules; most files need half of that
MOST_BROAD_EXCEPTS = 4


@dataclass(frozen=True)
class Source:
    """One file of the package; `path` is relative to the root, with slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> Nodes:
        """What the rules look at, gathered in one walk."""
        nodes = Nodes()
        nodes.gather(self, self.tree, lazy=False)
        return nodes

    @property
    def module(self) -> str:
        dotted = self.path.removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    @property
    def room(self) -> str:
        """The room's name; a file at the top is a room of its own, `__init__.py` is ""."""
        return room_of(self.module)

    @property
    def imports(self) -> list[Import]:
        return self.nodes.imports


@dataclass(frozen=True)
class Import:
    """One imported module (`from a import b` is `a` and maybe `a.b`)."""

    module: str
    names: tuple[str, ...]
    line: int
    lazy: bool  # inside a function

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


_LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.Name, ast.Constant)


@dataclass(frozen=True)
class Nodes:
    """The nodes of one file by what they are; imports for type checkers only are as lazy as any inside a function."""

    imports: list[Import] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=list)
    calls: list[ast.Call] = field(default_factory=list)
    attributes: list[ast.Attribute] = field(default_factory=list)
    excepts: list[ast.ExceptHandler] = field(default_factory=list)

    def gather(self, source: Source, node: ast.AST, *, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inside = lazy
            match child:
                case _ if isinstance(child, _LEAVES):
                    continue
                case ast.Import():
                    self.imports.extend(Import(alias.name, (), child.lineno, lazy) for alias in child.names)
                    continue
                case ast.ImportFrom():
                    names = tuple(alias.name for alias in child.names)
                    self.imports.append(Import(_absolute(source, child), names, child.lineno, lazy))
                    continue
                case ast.If() if "TYPE_CHECKING" in ast.unparse(child.test):
                    inside = True
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append(child)
                    inside = True
                case ast.Lambda():
                    inside = True
                case ast.ClassDef():
                    self.classes.append(child)
                case ast.Call():
                    self.calls.append(child)
                case ast.Attribute():
                    self.attributes.append(child)
                case ast.ExceptHandler():
                    self.excepts.append(child)
            self.gather(source, child, lazy=inside)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    if not source.path.endswith("__init__.py"):
        package = package[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, *((node.module,) if node.module else ())])


def targets(source: Source, modules: set[str]) -> Iterator[tuple[str, int]]:
    """The house's own modules that this one imports, with the line."""
    for found in source.imports:
        if found.top != PACKAGE:
            continue
        below = [f"{found.module}.{name}" for name in found.names if f"{found.module}.{name}" in modules]
        for module in below or [found.module]:
            yield module, found.line


Rule = Callable[[Sequence[Source]], list[str]]


def imports_run_one_way(sources: Sequence[Source]) -> list[str]:
    """errors <- core <- records <- {git_repo, trainers, readers, ...} <- lab <- commands <- cli."""
    modules = {source.module for source in sources}
    faults = []
    for source in sources:
        if source.room not in MAY_IMPORT:
            faults.append(f"{source.path}: {source.room} is no room of this house")
            continue
        allowed = {source.room, *MAY_IMPORT[source.room]} | ({""} if source.room not in ALONE else set())
        allowed |= OPEN_TO_ALL if source.room not in ALONE else set()
        for module, line in targets(source, modules):
            if room_of(module) not in allowed:
                faults.append(f"{source.path}:{line}: {source.room or PACKAGE} must not import {module}")
    return faults


def programs_stand_alone(sources: Sequence[Source]) -> list[str]:
    """runner/ imports the standard library only, tinygrpo/ numpy and yaml besides."""
    return [
        f"{source.path}:{found.line}: {source.room} must not import {found.module}"
        for source in sources
        if source.room in ALONE
        for found in source.imports
        if found.top not in sys.stdlib_module_names | ALONE[source.room]
        and not (found.top == PACKAGE and room_of(found.module) == source.room)
        and not (found.module == PACKAGE and set(found.names) == {source.room})
    ]


def no_import_cycle(sources: Sequence[Source]) -> list[str]:
    """Lazy imports count too: they hide a cycle, they do not remove it."""
    modules = {source.module for source in sources}
    graph = {s.module: {m for m, _ in targets(s, modules) if m in modules and m != s.module} for s in sources}
    done: set[str] = set()
    faults: list[str] = []

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            faults.append("import cycle: " + " -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for other in sorted(graph[module]):
                visit(other, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return faults


def only_the_front_prints(sources: Sequence[Source]) -> list[str]:
    """print, sys.stdout, rich and typer belong to commands/, cli.py and the programs of their own."""
    faults = []
    for source in sources:
        if source.room in FRONT:
            continue
        for call in source.nodes.calls:
            if isinstance(call.func, ast.Name) and call.func.id in ("print", "input"):
                faults.append(f"{source.path}:{call.lineno}: only commands/ talks to people, not {call.func.id}()")
        for node in source.nodes.attributes:
            if node.attr in ("stdout", "stderr", "stdin") and ast.unparse(node.value) == "sys":
                faults.append(f"{source.path}:{node.lineno}: only commands/ uses {ast.unparse(node)}")
        for found in source.imports:
            if found.top in ("rich", "typer", "click"):
                faults.append(f"{source.path}:{found.line}: only commands/ imports {found.top}")
    return faults


def core_is_pure(sources: Sequence[Source]) -> list[str]:
    """core/ has no clock, no file, no process, no chance."""
    faults = []
    for source in sources:
        if source.room != "core":
            continue
        for found in source.imports:
            if (source.path, found.top) in PURE:
                continue
            a_path = found.top == "pathlib" and not (found.names and set(found.names) <= PURE_PATHS)
            if found.top in IMPURE or a_path:
                faults.append(f"{source.path}:{found.line}: core must not import {found.module}")
            elif found.top not in sys.stdlib_module_names | {PACKAGE}:
                faults.append(f"{source.path}:{found.line}: core must not import {found.module}, an outside library")
        for call in source.nodes.calls:
            name = ast.unparse(call.func)
            if name in ("open", "exec", "eval", "__import__") or re.search(r"\.(now|today|utcnow)$", name):
                faults.append(f"{source.path}:{call.lineno}: core must not call {name}()")
    return faults


def one_owner_each(sources: Sequence[Source]) -> list[str]:
    """One file owns each outside library, and heavy ones are imported inside functions."""
    faults = []
    users: dict[str, set[str]] = {}
    for source in sources:
        if source.room in ALONE:
            continue
        for found in source.imports:
            owner = OWNERS.get(found.top)
            if owner is not None and (source.path, found.top) not in PURE:
                users.setdefault(found.top, set()).add(source.path)
                if not (source.path == owner or (owner.endswith("/") and source.path.startswith(owner))):
                    faults.append(f"{source.path}:{found.line}: {found.top} belongs to {owner}")
            if found.top in HEAVY and not found.lazy:
                faults.append(f"{source.path}:{found.line}: {found.top} is heavy; import it inside a function")
    shared = {library: paths for library, paths in users.items() if len(paths) > 1}
    return faults + [f"{library} has several owners: {', '.join(sorted(p))}" for library, p in shared.items()]


def few_broad_excepts(sources: Sequence[Source]) -> list[str]:
    """At most four: the front door, what must not sink a run or a campaign (the Runner, a job), what plug-ins raise."""
    found = [f"{source.path}:{node.lineno}" for source in sources for node in source.nodes.excepts if _is_broad(node)]
    return [f"{len(found)} broad excepts: {', '.join(found)}"] if len(found) > MOST_BROAD_EXCEPTS else []


def _is_broad(node: ast.ExceptHandler) -> bool:
    """One that ends in a bare `raise` only tidies up, and hides nothing."""
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    names = {"" if kind is None else ast.unparse(kind).rpartition(".")[2] for kind in kinds}
    last = node.body[-1]
    return bool(names & {"", "Exception", "BaseException"}) and not (isinstance(last, ast.Raise) and last.exc is None)


def standard_terms(sources: Sequence[Source]) -> list[str]:
    """Names of files and classes are terms of the field, not inventions (see docs/house.md)."""
    faults = []
    for source in sources:
        classes = [(node.name, node.lineno) for node in source.nodes.classes]
        names = [(part, 1) for part in source.module.split(".")] + classes
        for name, line in names:
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
            if any(INVENTED.fullmatch(word) for word in words):
                faults.append(f"{source.path}:{line}: {name} holds a word that nobody else uses")
    return faults


def one_class_one_meaning(sources: Sequence[Source]) -> list[str]:
    """No two classes share a name; a leading underscore makes no difference to a reader."""
    found: dict[str, list[str]] = {}
    for source in sources:
        for node in source.nodes.classes:
            found.setdefault(node.name.lstrip("_"), []).append(f"{source.path}:{node.lineno}")
    return [f"{name} is the name of several classes: {', '.join(where)}" for name, where in found.items() if where[1:]]


def one_parameter_one_class(sources: Sequence[Source]) -> list[str]:
    """Of the house's classes, a parameter's name stands for one, in whatever container."""
    own = {node.name for source in sources for node in source.nodes.classes}
    uses: dict[str, dict[frozenset[str], list[str]]] = {}
    for source in sources:
        known = own - _aliases(source)
        for function, parameter in _parameters(source):
            if parameter.annotation and (classes := frozenset(_classes_in(parameter.annotation) & known)):
                where = f"{source.path}:{function.lineno}"
                uses.setdefault(parameter.arg, {}).setdefault(classes, []).append(where)
    return [
        f"{name} is a parameter of several classes: "
        + "; ".join(f"{', '.join(sorted(classes))} in {' '.join(where[:3])}" for classes, where in by_class.items())
        for name, by_class in uses.items()
        if len(by_class) > 1
    ]


def no_vague_names(sources: Sequence[Source]) -> list[str]:
    """No parameter, field or function has a name that says nothing; a leading underscore makes it no better."""
    named = [(source, name, line) for source in sources for name, line in _names_in(source)]
    return [
        f"{source.path}:{line}: {name} says nothing of what it holds"
        for source, name, line in named
        if name.rpartition(".")[2].lstrip("_") in VAGUE and name not in ON_DISK
    ]


def _names_in(source: Source) -> Iterator[tuple[str, int]]:
    for function, parameter in _parameters(source):
        yield parameter.arg, function.lineno
    for function in source.nodes.functions:
        yield function.name, function.lineno
    for of in source.nodes.classes:
        fields = (node for node in of.body if isinstance(node, ast.AnnAssign))
        yield from ((f"{of.name}.{ast.unparse(node.target)}", node.lineno) for node in fields)


def _parameters(source: Source) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.arg]]:
    for node in source.nodes.functions:
        of = node.args
        for one in (*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg):
            if one is not None:
                yield node, one


def _classes_in(annotation: ast.expr) -> set[str]:
    """The names in an annotation; what a callable takes, and what the standard library defines, is no class of ours."""
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value).rpartition(".")[2]
        return set() if outer in ("Callable", "Annotated") else _classes_in(annotation.slice)
    if isinstance(annotation, ast.Attribute):
        return set() if ast.unparse(annotation.value) in sys.stdlib_module_names else {annotation.attr}
    if isinstance(annotation, ast.Name):
        return {annotation.id}
    parts = (child for child in ast.iter_child_nodes(annotation) if isinstance(child, ast.expr))
    return set().union(*map(_classes_in, parts))


def _aliases(source: Source) -> set[str]:
    """Names that a module gives to annotations of its own (`Words = Annotated[...]`)."""
    assigned = (target for node in source.tree.body if isinstance(node, ast.Assign) for target in node.targets)
    return {target.id for target in assigned if isinstance(target, ast.Name)}


def few_imports(sources: Sequence[Source]) -> list[str]:
    """A file that needs more of the house than this does several things; two modules stand in for standard ones."""
    modules = {source.module for source in sources}
    no_rooms = {f"{PACKAGE}.core.text.regex"}
    counts = {s.path: len({m for m, _ in targets(s, modules)} - {s.module} - no_rooms) for s in sources}
    return [f"{path}: {n} imports, {MOST_IMPORTS} at most" for path, n in counts.items() if n > MOST_IMPORTS]


def files_stay_small(sources: Sequence[Source]) -> list[str]:
    faults = []
    for source in sources:
        most = MOST_LINES_ALONE if source.room == "runner" else MOST_LINES
        lines = len(source.text.splitlines())
        if lines > most:
            faults.append(f"{source.path}: {lines} lines, {most} at most")
    return faults


def read_budgets() -> list[dict[str, Any]]:
    """The rooms of tests/house_budgets.yaml."""
    budgets: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "house_budgets.yaml").read_text())
    return budgets


def lines_of_rooms(sources: Sequence[Source], budgets: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Name of a room -> its files, and all their lines; the longest path that begins a file's own names its room."""
    totals = {room["room"]: (0, 0) for room in budgets}
    begins = sorted(((path, room["room"]) for room in budgets for path in room["paths"]), key=lambda x: -len(x[0]))
    for source in sources:
        room = next(room for path, room in begins if source.path.startswith(path))
        files, lines = totals[room]
        totals[room] = files + 1, lines + len(source.text.splitlines())
    return totals


def public_things_are_explained(sources: Sequence[Source]) -> list[str]:
    """Modules, public classes and public functions; a method may be explained by its class or its seam."""
    faults = []
    for source in sources:
        if not ast.get_docstring(source.tree) and source.text.strip():
            faults.append(f"{source.path}: the module says not what it is for")
        things = (n for n in source.tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef))
        for thing in things:
            if not thing.name.startswith("_") and not ast.get_docstring(thing):
                faults.append(f"{source.path}:{thing.lineno}: {thing.name} says not what it is for")
    return faults


def no_workplace(sources: Sequence[Source]) -> list[str]:
    """No path of the machine that this was written on."""
    return [
        f"{source.path}:{number}: a path of somebody's machine"
        for source in sources
        for number, line in enumerate(source.text.splitlines(), 1)
        if WORKPLACE.search(line)
    ]


def patterns_are_compiled_late(sources: Sequence[Source]) -> list[str]:
    """A module compiles no regular expression when it is imported: most commands would not use it."""
    return [
        f"{source.path}:{node.lineno}: write later(...), or LazyPattern(...) in runner/"
        for source in sources
        if source.room != "tinygrpo"
        for node in source.tree.body
        if isinstance(node, ast.Assign) and "re.compile(" in ast.unparse(node.value)
    ]


RULES: tuple[Rule, ...] = (
    imports_run_one_way,
    programs_stand_alone,
    no_import_cycle,
    only_the_front_prints,
    core_is_pure,
    one_owner_each,
    few_broad_excepts,
    standard_terms,
    one_class_one_meaning,
    one_parameter_one_class,
    no_vague_names,
    few_imports,
    files_stay_small,
    public_things_are_explained,
    no_workplace,
    patterns_are_compiled_late,
)


def read_sources(folder: str) -> list[Source]:
    """All Python files below a folder of the repository."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Trees of half a million nodes take four times as long to make when the collector counts them again and again."""
    gc.disable()
    yield
    gc.enable()


def test_the_house_keeps_its_rules_and_budgets(no_garbage_collection: None) -> None:
    """One test, so that every file is read, parsed and walked once, in one worker."""
    package = read_sources(PACKAGE)
    assert len(package) > 15, "the package was not found"
    faults = [f"{rule.__name__}: {fault}" for rule in RULES for fault in rule(package)]
    budgets = read_budgets()
    lines = lines_of_rooms([*package, *read_sources("tests")], budgets)
    faults += [
        f"{b['room']}: {lines[b['room']][1]} lines, {b['lines']} at most: write less, or raise the budget in a commit "
        "of its own that says why"
        for b in budgets
        if lines[b["room"]][1] > b["lines"]
    ]
    assert not faults, "\n".join(["", *faults])


def test_a_file_belongs_to_the_room_with_the_longest_path() -> None:
    budgets = [{"room": "a", "paths": ["autoresearch/core/"]}, {"room": "b", "paths": ["autoresearch/core/b"]}]
    sources = house({HERE: "x = 1\n", "autoresearch/core/b.py": "", "autoresearch/core/b/c.py": "y = 1\n"})
    assert lines_of_rooms(sources, budgets) == {"a": (1, 2), "b": (2, 3)}


def test_nothing_that_is_shipped_names_the_workplace() -> None:
    kinds = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".j2", ".txt", ".tsv", ".json", ""}
    skipped = {".git", "venv", "build", "dist", "node_modules", "site"}
    folders = [p for p in ROOT.iterdir() if p.is_dir() and p.name not in skipped]
    folders = [p for p in folders if not p.name.endswith("_cache") and not p.name.startswith(".venv")]
    paths = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    paths += [p for p in ROOT.iterdir() if p.is_file()]
    texts = [p for p in paths if p.suffix in kinds and p.stat().st_size < 1 << 20 and p.name != ".git"]
    sources = [Source(p.relative_to(ROOT).as_posix(), p.read_text(errors="replace")) for p in texts]
    assert not (faults := no_workplace(sources)), "\n".join(faults)


# --- The rules themselves: each is seen to fail; that they leave alone what is fine, the package shows ---

DOC = '"""Says what it is for."""\n'
HERE = "autoresearch/core/a.py"
RUNNER = "autoresearch/runner/a.py"
LAB = "autoresearch/lab/a.py"
TMUX = "autoresearch/launchers/tmux.py"


def house(files: dict[str, str]) -> list[Source]:
    """A package of these files; each begins with a docstring, so that line 1 of it is line 2."""
    return [Source(path, DOC + text) for path, text in files.items()]


def lazily(line: str) -> str:
    return f"def _f():\n    {line}\n"


_CLASSES = "class A: ...\nclass B: ...\n"

BAD: dict[Rule, list[tuple[dict[str, str], str]]] = {
    imports_run_one_way: [
        ({HERE: "from autoresearch.records import rundir"}, "core must not import autoresearch.records"),
        ({HERE: "from ..lab import run"}, "core must not import autoresearch.lab"),
        ({HERE: "if TYPE_CHECKING:\n    from autoresearch.lab import run"}, "core must not import autoresearch.lab"),
        ({LAB: lazily("from autoresearch.agentjet import up")}, "lab must not"),
        ({"autoresearch/attic/a.py": ""}, "attic is no room"),
    ],
    programs_stand_alone: [({RUNNER: lazily("import numpy")}, "runner must not import numpy")],
    no_import_cycle: [
        (
            {HERE: "from . import b", "autoresearch/core/b.py": lazily("import autoresearch.core.a")},
            "autoresearch.core.a -> autoresearch.core.b -> autoresearch.core.a",
        ),
    ],
    only_the_front_prints: [
        ({LAB: "print(1)"}, "lab/a.py:2"),
        ({LAB: lazily("import rich.live")}, "imports rich"),
        ({LAB: "import sys\nsys.stderr.write('x')"}, "sys.stderr"),
    ],
    core_is_pure: [
        ({HERE: lazily("import os.path")}, "core must not import os.path"),
        ({HERE: "from pathlib import PurePath, Path"}, "core must not import pathlib"),
        ({HERE: "from datetime import datetime\nx = datetime.now()"}, "datetime.now()"),
        ({HERE: "import numpy"}, "an outside library"),
    ],
    one_owner_each: [
        ({LAB: lazily("import libtmux")}, "libtmux belongs to"),
        ({TMUX: "import libtmux"}, "heavy"),
        (
            {f"autoresearch/git_repo/{name}.py": lazily("import git") for name in "ab"},
            "git has several owners: autoresearch/git_repo/a.py, autoresearch/git_repo/b.py",
        ),
    ],
    few_broad_excepts: [({HERE: "try: x\nexcept (ValueError, Exception) as e: raise X(e)\n" * 5}, "5 broad excepts")],
    standard_terms: [
        ({"autoresearch/core/run_helper.py": ""}, "run_helper"),
        ({HERE: "class HTTPCouriers: ..."}, "HTTPCouriers"),
    ],
    one_class_one_meaning: [({HERE: "class A: ...", RUNNER: "class _A: ..."}, "A is the name of several classes")],
    one_parameter_one_class: [
        (
            {LAB: _CLASSES + "def f(x: A): ...\ndef g(*, x: Sequence[B] | None = None): ..."},
            "B in autoresearch/lab/a.py:5",
        ),
        ({LAB: _CLASSES + "def f(x: A): ...", TMUX: "def f(x: lab.B): ..."}, "B in autoresearch/launchers/tmux.py:2"),
    ],
    no_vague_names: [
        ({LAB: "def f(a, *, wanted: str = '', **asked: int): ..."}, "asked says nothing"),
        ({TMUX: "class A:\n    found: int"}, "tmux.py:3: A.found says nothing"),
        ({TMUX: "class A:\n    async def _told(self): ..."}, "tmux.py:3: _told says nothing"),
    ],
    few_imports: [({HERE: "".join(lazily(f"import autoresearch.core.b{n}") for n in range(21))}, "21 imports")],
    files_stay_small: [
        ({HERE: "\n" * 600}, "601 lines, 600 at most"),
        ({RUNNER: "\n" * 800}, "801 lines, 800 at most"),
    ],
    public_things_are_explained: [
        ({HERE: "def f(): ..."}, "f says not"),
        ({HERE: "class A:\n    x = 1"}, "A says not"),
    ],
    patterns_are_compiled_late: [({HERE: "import re\nA, B = re.compile('a'), 1"}, "a.py:3: write later")],
    no_workplace: [({HERE: "x = '/w" + "ork/shared/x'"}, "a.py:2")],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_catches_a_bad_source(rule: Rule) -> None:
    for files, message in BAD[rule]:
        faults = rule(house(files))
        assert any(message in fault for fault in faults), (files, faults)

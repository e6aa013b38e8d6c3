"""What a Python program does not do by default, or does before it trains, found in its text."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from autoresearch.core.text.python_text import called_name, definitions, syntax_tree
from autoresearch.core.text.regex import later
from autoresearch.lab.recipes.program_flags import command_functions

_TRAINS = later(r"(?i)train|backward|(?:^|_)(?:fit|learn|step|update)")  # within a loop
_RUNS = later(r"(?i)(?:pre|start_|run_)?train(?:ing)?(?:_(?:loop|model|net|epochs?|one_epoch|agent|worker))?|fit|learn")
_PARTS = frozenset({"phase", "split", "mode", "stage", "subset", "fold", "seed", "run", "trial", "task", "dataset"})
_BATCHES = later(r"(?i)(?:val|test|dev)\w*?_?(?:loader|set|data|iter|dl|gen|batches)")
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def not_done(tree: ast.AST, flags: Mapping[str, object]) -> set[ast.AST]:
    """The nodes of branches that these flags do not take, and of those that end the program with an error.

    `if args.test: print(...)` is not done where `--test` is off by default; `print("loss is nan"); sys.exit(1)` is
    said of a run that failed.
    """
    found = set[ast.AST]()
    known = {**flags, **_constants(tree)}
    for name in _changed(tree):
        known.pop(name, None)
    commands = command_functions(tree)
    others = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one not in commands]
    local_names = {argument.arg for one in others for argument in (*one.args.args, *one.args.kwonlyargs)}
    for name, expression in _assigned_once(tree).items():  # `evaluates = args.every > 0`
        if name not in local_names and (value := _value(expression, known, local_names)) is not None:
            known[name] = value
    for node in ast.walk(tree):
        body = node.body if isinstance(node, ast.FunctionDef) else []
        for n, one in enumerate(body):
            if not (isinstance(one, ast.If) and isinstance(one.body[-1], ast.Return)):
                continue
            if _value(one.test, known, local_names):
                found.update(inner for left in body[n + 1 :] for inner in ast.walk(left))
        if isinstance(node, ast.If | ast.IfExp):
            taken = _value(node.test, known, local_names)
            for branch, is_left in ((node.body, taken is False), (node.orelse, taken is True)):
                block = branch if isinstance(branch, list) else [branch]
                if is_left or _fails(block):
                    found.update(inner for one in block for inner in ast.walk(one))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
            found.update(one for one in calls if node.name in map(called_name, ast.walk(one)))  # `print(f"error: {e}")`
    found.update(_not_shown(tree, found))
    return found


def reached_names(texts: Mapping[str, str], flags: Mapping[str, object]) -> set[str]:
    """The names of functions and classes, and all others, that the first of these texts leads to with these flags."""
    return _reached_names(tuple(texts.items()), tuple(flags.items()))


@lru_cache(maxsize=32)
def _reached_names(items: tuple[tuple[str, str], ...], flag_items: tuple[tuple[str, object], ...]) -> set[str]:
    texts, flags = dict(items), dict(flag_items)
    uses: dict[str, set[str]] = {"": set()}  # within a function or class of this name, or outside of all
    for path, text in texts.items():
        tree = syntax_tree(text) or ast.Module([], [])
        left, inside = not_done(tree, flags), definitions(tree)
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
        plain = {node.id for node in names if isinstance(node, ast.Name)}
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        meant = {alias.asname or alias.name: alias.name for node in froms for alias in node.names}
        for node in names:
            if node not in left and (isinstance(node, ast.Name) or node.attr not in plain):  # not `model.eval()`
                uses.setdefault(inside.get(node, ""), set()).add(meant.get(called_name(node), called_name(node)))
        if any(map(_looks_up, ast.walk(tree))):
            uses[""] |= set(inside.values())
        if path == next(iter(texts)) or not path.endswith("__init__.py"):  # another one only hands names on
            used = {called_name(node) for node in names}
            uses[""] |= {name for own, name in meant.items() if own not in used}
    found, new = set[str](), {"", "main"}  # which an installed program calls
    while new:
        found |= new
        new = set().union(*(uses.get(name, ()) for name in new)) - found
    return found


NOTHING = "(None)"  # as a flag: what no call gives


def never_given(texts: Mapping[str, str]) -> dict[str, object]:
    """The arguments that each call in these texts leaves None: `Trainer(model, train_data, None)`; all of them NOTHING.

    What is printed `if self.test_data is not None` is not, then.
    """
    nodes = [node for text in texts.values() for node in ast.walk(syntax_tree(text) or ast.Module([], []))]
    calls: dict[str, list[ast.Call]] = {}
    for node in nodes:
        if isinstance(node, ast.Call):
            calls.setdefault(called_name(node.func), []).append(node)
    values: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        made = node.body if isinstance(node, ast.ClassDef) else [node]
        named = "__init__" if isinstance(node, ast.ClassDef) else getattr(node, "name", "")
        for one in (one for one in made if isinstance(one, ast.FunctionDef) and one.name == named):
            names = [argument.arg for argument in one.args.args if argument.arg != "self"]
            for call in calls.get(getattr(node, "name", ""), ()):
                given = {**dict(zip(names, call.args, strict=False)), **{k.arg or "": k.value for k in call.keywords}}
                for name in names:
                    values.setdefault(name, []).append(given.get(name))
    return {name: NOTHING for name, each in values.items() if all(map(_is_none, each))}


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def before_training(tree: ast.AST) -> set[ast.AST]:
    """The nodes that are done before the loop that trains, or its call: they print settings, or what the data are."""
    return {node for scope in _scopes(tree) for node in _early(scope.body)}


def done_twice(texts: Mapping[str, str], flags: Mapping[str, object]) -> dict[tuple[str, int], str]:
    """The functions and loops, by file and line, that serve two ends, and the second of them, or the loop.

    What `evaluate(train_set)` prints is another number than what `evaluate(test_set)` prints by the same name; so it is
    in `for phase in loaders:`. A function serves two ends if it is called in two ways, directly or by who calls it.
    """
    trees = {path: syntax_tree(text) or ast.Module([], []) for path, text in texts.items()}
    modules = {path: {*_modules(tree)} for path, tree in trees.items()}
    calls: dict[str, list[tuple[ast.Call, str, tuple[str, int]]]] = {}  # by name: each call, its file, who calls
    for path, tree in trees.items():
        left = not_done(tree, flags)
        for scope in _scopes(tree):
            for node in (node for one in scope.body for node in _own(one) if node not in left):
                if isinstance(node, ast.Call):
                    caller = (path, getattr(scope, "lineno", 0))
                    calls.setdefault(called_name(node.func), []).append((node, path, caller))
    found, callers = dict[tuple[str, int], str](), dict[tuple[str, int], tuple[str, int]]()
    within = dict[ast.AST, str]()
    for path, tree in trees.items():
        left = not_done(tree, flags)
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and _of_parts(node):
                shown = f"{path}:{node.lineno}: for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
                found[path, node.lineno] = shown
            elif isinstance(node, ast.If) and _is_choice(node) and left.isdisjoint([node.body[0], node.orelse[0]]):
                shown = f"{path}:{node.lineno}: if {ast.unparse(node.test)}"
            else:
                continue
            within.update(dict.fromkeys(ast.walk(node), shown))
    for path, tree in trees.items():
        for scope in _scopes(tree):
            if isinstance(scope, ast.FunctionDef):
                of_whom: dict[str, dict[str, tuple[str, str, tuple[str, int]]]] = {}  # others may be of another class
                for call, where, caller in calls.get(scope.name, ()):
                    if _fits(call, scope.args, modules[where]):
                        words, place = ast.unparse(call), f"{where}:{call.lineno}"
                        of_whom.setdefault(ast.unparse(call.func), {})[words] = (place, words, caller)
                        found.update({(path, scope.lineno): within[call]} if call in within else {})
                for ways in of_whom.values():
                    if len(ways) > 1:
                        found[path, scope.lineno] = ": ".join([*ways.values()][1][:2])
                    elif len(of_whom) == 1:
                        callers[path, scope.lineno] = next(iter(ways.values()))[2]
    while new := {one: found[caller] for one, caller in callers.items() if caller in found and one not in found}:
        found |= new
    return found


def _is_choice(branch: ast.If) -> bool:
    """Whether a branch is one of several that a text chooses: `if mode == "a": ... elif mode == "b": ...`."""
    match branch:
        case ast.If(test=ast.Compare(left=one, ops=[ast.Eq()], comparators=[ast.Constant(value=str())]),
                    orelse=[ast.If(test=ast.Compare(left=other, ops=[ast.Eq()]))]):  # fmt: skip
            return ast.unparse(one) == ast.unparse(other)
    return False


def _of_parts(loop: ast.For) -> bool:
    """Whether a loop does the same for parts of the data, its batches, or runs: each has another number."""
    names = [word for node in ast.walk(loop.target) for word in called_name(node).lower().split("_")]
    lists = [node.elts for node in ast.walk(loop.iter) if isinstance(node, ast.List | ast.Tuple)]
    texts = any(len(one) > 1 and all(isinstance(getattr(e, "value", None), str) for e in one) for one in lists)
    return texts or not _PARTS.isdisjoint(names) or _BATCHES.search(ast.unparse(loop.iter)) is not None


def _modules(tree: ast.AST) -> Iterator[str]:
    """The names that a text imports."""
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            yield alias.asname or alias.name.partition(".")[0]


def _fits(call: ast.Call, takes: ast.arguments, modules: Collection[str]) -> bool:
    """Whether a call may be one of a function that takes these arguments: not `model.train()` of `train(epoch)`."""
    names = [one.arg for one in (*takes.posonlyargs, *takes.args)]
    of_object = names[:1] in (["self"], ["cls"])
    most = len(names) + len(takes.kwonlyargs) - of_object
    least = len(names) - len(takes.defaults) - of_object
    given = len(call.args) + len(call.keywords)
    open_ended = takes.vararg or takes.kwarg or any(isinstance(one, ast.Starred) for one in call.args)
    root = ast.unparse(call.func).partition(".")[0]
    called_of = isinstance(call.func, ast.Attribute) and root not in modules
    return called_of is of_object and (bool(open_ended) or least <= given <= most)


def _scopes(tree: ast.AST) -> Iterator[ast.Module | ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef))


def _early(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    if (start := _start(body)) is None:
        return
    for one in body[:start]:
        yield from _own(one)
    if not isinstance(body[start], ast.For | ast.While):  # `with session:`
        for block in ("body", "orelse", "finalbody"):
            yield from _early(getattr(body[start], block, ()))


def _start(body: Sequence[ast.stmt]) -> int | None:
    """Which statement of a block trains: the first loop or call that says so, else the first that holds a loop."""
    loops = [n for n, one in enumerate(body) if any(isinstance(node, ast.For | ast.While) for node in _own(one))]
    for n, one in enumerate(body):
        says = _TRAINS.search if isinstance(one, ast.For | ast.While) else _RUNS.fullmatch
        if any(isinstance(node, ast.Call) and says(called_name(node.func)) for node in _own(one)):
            return n
    return loops[0] if loops else None


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without what it only defines."""
    left = [node]
    while left:
        if not isinstance(node := left.pop(), _DEFINES):
            yield node
            left += ast.iter_child_nodes(node)


def _looks_up(node: ast.AST) -> bool:
    """Whether a call may reach any function or class, by a name that no source holds: `fire.Fire()`, `globals()`."""
    match node:
        case ast.Call(func=func, args=args):
            return called_name(func) in ("globals", "instantiate") or (called_name(func) == "Fire" and not args)
    return False


def _not_shown(tree: ast.AST, left: Collection[ast.AST]) -> Iterator[ast.AST]:
    """`logging.info` where logging is set up in branches alone that are left: it shows warnings only."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    setup = [call for call in calls if called_name(call.func) == "basicConfig"]
    if setup and all(call in left for call in setup):
        for call in calls:
            match call.func:
                case ast.Attribute(value=ast.Name(id="logging"), attr="info" | "debug"):
                    yield call


def _value(test: ast.expr, known: Mapping[str, object], local_names: Collection[str]) -> bool | None:
    """Whether a condition holds; None where only the run knows. local_names: variables that may be something else."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            value = _value(inner, known, local_names)
            return None if value is None else not value
        case ast.BoolOp(op=operation, values=values):
            every, stops = [_value(one, known, local_names) for one in values], isinstance(operation, ast.Or)
            return stops if stops in every else None if None in every else not stops
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operation], comparators=[ast.Constant(value=value)]):
            name = "" if isinstance(left, ast.Name) and left.id in local_names else called_name(left)
            return None if known.get(name) is None else (known[name] == value) is isinstance(operation, ast.Eq)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[ast.Constant(value=0)]):  # `args.eval_every > 0`
            number = known.get("" if isinstance(left, ast.Name) and left.id in local_names else called_name(left))
            return number > 0 if type(number) is int else None
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as isin], comparators=[ast.List() | ast.Tuple() as of]):
            name = "" if isinstance(left, ast.Name) and left.id in local_names else called_name(left)
            words = [one.value for one in of.elts if isinstance(one, ast.Constant)]
            told = isinstance(known.get(name), str) and len(words) == len(of.elts)
            return (known[name] in words) is isinstance(isin, ast.In) if told else None
        case ast.Compare(left=ast.Attribute(attr=name), ops=[ast.Is() | ast.IsNot() as isit], comparators=[of]):
            return isinstance(isit, ast.Is) if known.get(name) == NOTHING and _is_none(of) else None
        case ast.Attribute(attr=name) | ast.Name(id=name) if isinstance(known.get(name), bool):
            return bool(known[name])
    return None


def _fails(body: Sequence[ast.AST]) -> bool:
    match body[-1:]:
        case [ast.Raise()]:
            return True
        case [ast.Expr(value=ast.Call(func=ast.Name(id="exit") | ast.Attribute(attr="exit" | "_exit"), args=[code]))]:
            return not (isinstance(code, ast.Constant) and code.value in (0, None))
    return False


def _assigned_once(tree: ast.AST) -> dict[str, ast.expr]:
    """What each name is set to that one place sets."""
    nodes = [*ast.walk(tree)]
    times = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    sets = [node for node in nodes if isinstance(node, ast.Assign)]
    named = {one.targets[0].id: one.value for one in sets if isinstance(one.targets[0], ast.Name)}
    return {name: value for name, value in named.items() if times[name] == 1}


def _constants(tree: ast.AST) -> dict[str, object]:
    """The switches that stand at the top of a script: `wandb_log = False`."""
    found = dict[str, object]()
    for node in getattr(tree, "body", ()):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=bool() as value)):
                found[name] = value
    return found


def _changed(tree: ast.AST) -> Iterator[str]:
    """The names that a program sets somewhere else than once at its top, flags among them: `args.test = True`."""
    top = {id(node) for node in getattr(tree, "body", ())}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Attribute) and called_name(node.value) != target.attr:  # not `self.x = x`
                yield target.attr
            elif isinstance(target, ast.Name) and id(node) not in top and not _is_none(node.value):  # of no import
                yield target.id

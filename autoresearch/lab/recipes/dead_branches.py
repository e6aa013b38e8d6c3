"""What a Python program does not do by default, found in its text: branches of flags that are off, and last words."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from autoresearch.core.text.python_text import called_name, syntax_tree
from autoresearch.lab.recipes.program_flags import command_functions


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
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp):
            taken = _value(node.test, known, local_names)
            for branch, is_left in ((node.body, taken is False), (node.orelse, taken is True)):
                body = branch if isinstance(branch, list) else [branch]
                if is_left or _fails(body):
                    found.update(inner for one in body for inner in ast.walk(one))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
            found.update(one for one in calls if node.name in map(called_name, ast.walk(one)))  # `print(f"error: {e}")`
    found.update(_not_shown(tree, found))
    return found


def reached_names(texts: Mapping[str, str], flags: Mapping[str, object]) -> set[str]:
    """The names of functions and classes, and all others, that the first of these texts leads to with these flags."""
    uses: dict[str, set[str]] = {"": set()}  # within a function or class of this name, or outside of all
    for path, text in texts.items():
        tree = syntax_tree(text) or ast.Module([], [])
        left, inside = not_done(tree, flags), definitions(tree)
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
        plain = {node.id for node in names if isinstance(node, ast.Name)}
        for node in names:
            if node not in left and (isinstance(node, ast.Name) or node.attr not in plain):  # not `model.eval()`
                uses.setdefault(inside.get(node, ""), set()).add(called_name(node))
        imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        if any(map(_looks_up, ast.walk(tree))):
            uses[""] |= set(inside.values())
        if path == next(iter(texts)) or not path.endswith("__init__.py"):  # another one only hands names on
            uses[""] |= imports - {called_name(node) for node in names}
    found, new = set[str](), {"", "main"}  # which an installed program calls
    while new:
        found |= new
        new = set().union(*(uses.get(name, ()) for name in new)) - found
    return found


def _looks_up(node: ast.AST) -> bool:
    """Whether a call may reach any function or class, by a name that no source holds: `fire.Fire()`, `globals()`."""
    match node:
        case ast.Call(func=func, args=args):
            return called_name(func) in ("globals", "instantiate") or (called_name(func) == "Fire" and not args)
    return False


def definitions(tree: ast.AST) -> dict[ast.AST, str]:
    """The function or class at the top of a text that a node stands in; nothing of those that a decorator may use."""
    tops = [node for node in getattr(tree, "body", ()) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {inner: top.name for top in tops if not top.decorator_list for inner in ast.walk(top)}


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
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute):
                yield target.attr
            elif isinstance(target, ast.Name) and id(node) not in top:
                yield target.id

"""The numbers that a Python program prints, found in its text: the one finder for `init`, `check`, `run` and campaigns.

The text is parsed, not run: each call that prints is filled with numbers, and the line goes to the reader of logs,
which says under which name a run would have it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, repeat

from autoresearch.core.metrics.objective import Objective, usual_direction
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.runner.metric_lines import body, is_count, parse, step_rank
from autoresearch.trainers.trl import Trl

_TRACKERS = {"wandb": Source(SourceFormat.WANDB, "wandb/"), "swanlab": Source(SourceFormat.SWANLAB, "swanlog/")}
PLAIN_PRINTS = later(r"print|write|info|warning|log")
_PRINTS = later(r"(?i).*(?:print|write|echo|log|warn|message|progress).*|info|error|set_description|set_postfix")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HELD_OUT = _set_of("val valid validation eval evaluation test")
_MEASURES = (
    _set_of("reward rewards return returns score scores acc accuracy success pass win fitness f1 auc bleu"),
    _set_of("loss bpb ppl perplexity error mse mae rmse nll"),
)
"""Words of a name that make it worth optimising, the best first; held-out ones come before these."""
_NEVER = _set_of(
    "std stdev stddev var variance min max minimum maximum count counts num time runtime elapsed seconds sec size lr "
    "norm flops"
)
_NO_MEASURE = _set_of("total number step steps epoch samples per second results metrics stats") | _HELD_OUT
_CONSOLE = later(r"(?i)stdout|stderr|tqdm|bar\b|logger|console")
_DEBUG = later(r"\[?DEBUG\b")
_TRAINS = later(r"(?i)train|backward|(?:^|_)(?:fit|learn|step|update)")
_PERCENT = later(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?([diouxXeEfFgGs])")
_BRACES = later(r"\{[^{}:]*(?::([^{}]*))?\}")
_NUMBER, _REAL, _COUNT, _TEXT = "0.1234", "0.4321", "7", "..."  # the second: its format says so
_SURE = float(_REAL)
_COUNTS, _WRAPS = _set_of("len int"), _set_of("str repr round float")  # functions
_MANY = later(r"(?:reward|return|score|loss|acc|error|metric|result)(?:e?s|_list)\Z")  # no number, but many
_SHOWN = 100  # characters of a line of source


@dataclass(frozen=True, slots=True)
class PrintedName:
    """A number that a program prints: its name as a run reads it, and the line of source that prints it."""

    name: str
    tracker: str = ""  # the one that alone is told it; "" if the console shows it
    where: str = ""
    line: int = 0
    source: str = ""
    sure: bool = True  # its format is that of a measured number

    def __str__(self) -> str:
        return f"{self.name} ({self.printed})"

    @property
    def printed(self) -> str:
        """Where it is printed, and how."""
        return f"{self.where}:{self.line}: {self.source}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files of the tracker that alone is told it."""
        return (_TRACKERS[self.tracker],) if self.tracker else ()

    @property
    def objective(self) -> Objective | None:
        """It as an objective; None where its name does not say which direction is better."""
        direction = usual_direction(f'"{self.name}"', None)
        return Objective(self.name, direction) if direction else None


def objectives_of(texts: Mapping[str, str], calls: re.Pattern[str] = _PRINTS) -> list[PrintedName]:
    """The printed numbers of which any may be the objective; [] if there is none.

    texts: of Python files, by path. calls: the functions that print.
    """
    names: dict[str, PrintedName] = {}
    for path, text in texts.items():
        names |= {one.name: one for one in printed_names(text, path, calls)}
    found = candidates(names.values())
    for path, text in texts.items():
        if not Trl().trains(text) or [one.name for one in found] not in ([], ["eval_loss"]):
            continue
        line = text.count("\n", 0, text.find("Trainer(")) + 1
        if "RLOOTrainer(" in text or "GRPOTrainer(" in text:  # a policy's loss does not say how good it is
            return [_at("reward", path, line, text)]
        return found or [_at("loss", path, line, text)]
    return found


def printed_names(text: str, where: str = "", prints: re.Pattern[str] = _PRINTS) -> list[PrintedName]:
    """The measured numbers that a Python text prints, the last one last; [] for a text that cannot be parsed.

    A number on the console comes before the same one in a tracker; whole numbers are counts.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    calls = {node for node in ast.walk(tree) if isinstance(node, ast.Call) and prints.fullmatch(_name(node.func))}
    calls = {call for call in calls - set(_before_training(tree)) if _on_console(call)}
    names: dict[str, PrintedName] = {}
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        for line in _lines(call):
            pairs = None if _DEBUG.match(line) else parse(body(line))
            for name, value in pairs.metrics.items() if pairs else ():
                if step_rank(name) is None and not is_count(value):
                    before = names.pop(name, None)
                    tracker = _tracker(call) if before is None else before.tracker and _tracker(call)
                    found = _at(name, where, _line_of(name, call, text), text)
                    names[name] = replace(found, tracker=tracker, sure=value == _SURE)
    return list(names.values())


def _before_training(tree: ast.AST) -> Iterator[ast.expr]:
    """The calls that stand before the loop that trains: what they print is of the data, or of settings."""
    for node in ast.walk(tree):
        body = node.body if isinstance(node, ast.Module | ast.FunctionDef | ast.If) else []
        for n, one in enumerate(body):
            names = (_name(call.func) for call in ast.walk(one) if isinstance(call, ast.Call))
            if isinstance(one, ast.For | ast.While) and any(map(_TRAINS.search, names)):
                yield from (before.value for before in body[:n] if isinstance(before, ast.Expr))
                break


def _on_console(call: ast.Call) -> bool:
    """Whether what a call writes is shown, and does not go to a file."""
    to = next((one.value for one in call.keywords if one.arg == "file"), None)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "write":
        to = call.func.value
    return to is None or bool(_CONSOLE.search(ast.unparse(to)))


def _line_of(name: str, call: ast.Call, text: str) -> int:
    """The line of a call that names the number; its first one where none does."""
    lines = text.split("\n")[call.lineno - 1 : call.end_lineno]
    return call.lineno + next((n for n, line in enumerate(lines) if name in line.replace(" ", "_")), 0)


def _at(name: str, where: str, line: int, text: str) -> PrintedName:
    return PrintedName(name, "", where, line, text.split("\n")[line - 1].strip()[:_SHOWN])


def candidates(names: Iterable[PrintedName]) -> list[PrintedName]:
    """Those that are most worth optimising, of which one is as likely as the other; [] without one.

    Of several that are better in the same direction, the last. The console's names come before a tracker's.
    """
    every = list(names)
    return _best([one for one in every if not one.tracker]) or _best(every)


def _best(names: list[PrintedName]) -> list[PrintedName]:
    words = {one: set(re.split(r"[^a-z0-9]+", one.name.lower())) - {""} for one in names}
    for one in names:  # the highest accuracy is the best so far; the highest loss is an outlier
        words[one] -= {"max"} if words[one] & {"acc", "accuracy"} else set()
    fair = [one for one in names if not words[one] & _NEVER]
    measures = [[one for one in fair if words[one] & measured] for measured in _MEASURES]
    held_out = [one for one in fair if words[one] & _HELD_OUT and words[one] - _NO_MEASURE]
    for fit in ([one for one in held_out if one.sure or one in (*measures[0], *measures[1])], *measures):
        if fit:  # the best so far is told where the value itself is not
            fit.sort(key=lambda one: "best" not in words[one])
            return sorted({usual_direction(f'"{one.name}"', None): one for one in fit}.values(), key=fit.index)
    return []


def _tracker(call: ast.Call) -> str:
    """The tracker that this call tells, of those whose files a run reads; "" for the console."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            words = set(name.lower().split("_"))
            return next((tracker for tracker in _TRACKERS if tracker in words), "wandb" if words == {"run"} else "")
    return ""


def _lines(call: ast.Call) -> Iterator[str]:
    """The lines that a call prints, with numbers for its values."""
    arguments = [one for one in call.args if not isinstance(one, ast.Starred)]
    first, name = arguments[0] if arguments else None, _name(call.func)
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    if name == "log_metrics" and text:  # transformers: `eval` names the split
        yield f"{text}_loss {_REAL}"
    elif name.startswith("log") and not _tracker(call) and not _shows(call):
        return
    elif name == "set_postfix":
        yield " ".join([*map(_shown, arguments), *(f"{one.arg}={_shown(one.value)}" for one in call.keywords)])
    elif _PERCENT.search(text):
        yield from _with_numbers(text).splitlines()  # logging takes the values as arguments
    else:
        yield from " ".join(map(_shown, arguments)).splitlines()


def _shows(call: ast.Call) -> bool:
    """Whether a function called `log` is given what a line shows; of `log("loss", x)` nobody knows how it looks."""
    match call.args:
        case [first] if _is_text(first):
            return True
        case [ast.Constant(value=str() as text), *_]:
            return bool(_PERCENT.search(text)) or any(one.arg == "prog_bar" for one in call.keywords)  # Lightning
    return False


def _shown(node: ast.expr) -> str:
    """How a value looks when it is printed."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(map(_shown, node.values))
        case ast.FormattedValue():
            spec = _shown(node.format_spec) if node.format_spec else ""
            return _formatted(spec[-1:]) or _shown(node.value)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
            return _with_numbers(text)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mult()):
            return text
        case ast.BinOp(op=ast.Add()) if _is_text(node.left) or _is_text(node.right):
            return _shown(node.left) + _shown(node.right)
        case ast.BinOp(op=ast.Add(), left=left):
            return _shown(left)  # `epoch + 1`
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format"), args=args):
            values = chain(map(_shown, args), repeat(_NUMBER))
            return _BRACES.sub(lambda spec: _formatted((spec[1] or "")[-1:], next(values)), text)
        case ast.Call(func=function, args=[ast.Dict() as first, *_]) if _name(function) == "dumps":
            return json.dumps(_pairs(first))
        case ast.Call(func=function, args=[_]) if _name(function) in _COUNTS:
            return _COUNT
        case ast.Call(func=function, args=[first, *_]) if _is_text(first) or _name(function) in _WRAPS:
            return _shown(first)
        case ast.Dict():
            return str(_pairs(node))
        case ast.ListComp():
            return _TEXT
        case ast.Name(id=name) | ast.Attribute(attr=name) if step_rank(name) is not None:
            return _COUNT
        case ast.Name(id=name) if _MANY.search(name):
            return _TEXT
    return _NUMBER


def _formatted(kind: str, shown: str = "") -> str:
    """A number with this letter at the end of its format; what is shown anyway where it may be anything."""
    return _COUNT if kind in ("d", ",", "i", "x", "X") else _REAL if kind and kind in "eEfFgG%" else shown


def _pairs(node: ast.Dict) -> dict[str, float | int]:
    shown = {key.value: _shown(value) for key, value in zip(node.keys, node.values, strict=True)
             if isinstance(key, ast.Constant) and isinstance(key.value, str)}  # fmt: skip
    return {key: int(text) if text == _COUNT else float(text) for key, text in shown.items()
            if text in (_NUMBER, _REAL, _COUNT)}  # fmt: skip


def _with_numbers(text: str) -> str:
    return _PERCENT.sub(lambda spec: _formatted(spec[1]) or _NUMBER, text)


def _is_text(node: ast.expr | None) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return _is_text(left) or _is_text(right)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _is_text(text)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

"""The numbers that a Python program prints or writes, found in its text: the one finder for `init`, `run`, campaigns.

The text is parsed, not run: each call that prints is filled with numbers, and the line goes to the reader of logs,
which says under which name a run would have it. docs/trainers.md says by which rule one of them is the objective.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, repeat
from types import MappingProxyType

from autoresearch.core.metrics.objective import Objective, usual_direction
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.core.text.python_text import as_program, called_name, definitions, syntax_tree
from autoresearch.core.text.regex import later
from autoresearch.lab.recipes.dead_branches import (
    before_training,
    done_twice,
    never_given,
    not_done,
    reached_names,
)
from autoresearch.lab.recipes.written_files import written_names
from autoresearch.runner.metric_lines import body, is_count, parse, step_rank
from autoresearch.trainers.trl import Trl

_TRACKERS = {"wandb": Source(SourceFormat.WANDB, "wandb/"), "swanlab": Source(SourceFormat.SWANLAB, "swanlog/")}
PLAIN_PRINTS = later(r"print|write|info|warning|log")
_PRINTS = later(r"(?i).*(?:print|write|echo|log|warn|message|progress).*|info|error|set_description|set_postfix")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VALIDATION, _TEST = _set_of("val valid vali validation eval evaluation dev held heldout holdout"), _set_of("test")
_OF_TRAINING = _set_of("train training tr")
_HELD_OUT = _VALIDATION | _TEST
_MEASURES = (
    _set_of(
        "reward rewards return returns score scores acc accuracy success pass win winrate fitness f1 auc auroc bleu "
        "rouge prec precision recall map miou iou dice psnr ssim elo ndcg mrr hits em acc1 top1 acc5 top5"
    ),
    _set_of("loss bpb bpc ppl perplexity error err mse mae mape rmse nll fid wer cer"),
)
"""Words of a name that make it worth optimising, the best first; held-out ones come before these."""
_RETURNS = _set_of("reward rewards return returns score scores success win winrate fitness elo")
_MEANS = _set_of("avg average mean ave running moving smoothed")
_SO_FAR = _set_of("best max highest lowest")
_NO_DIFFERENCE = _MEANS | _SO_FAR | _set_of("episode episodic ep per episodes final last")
"""Words of a name that say how a number is taken, and not of what."""
_SAME = {
    **dict.fromkeys(("acc", "acc1", "top1", "prec"), "accuracy"),
    **dict.fromkeys(("vali", "valid", "validation"), "val"),
    **dict.fromkeys(("ppl", "perplexity", "bpb", "bpc", "nll"), "loss"),  # each rises with the others
    **{"rewards": "reward", "returns": "return", "scores": "score", "err": "error", "1": ""},
}
_CODES = _set_of("ppl perplexity")  # of a codebook, perhaps: `recon_loss` is no part of it
_NEVER = _set_of(
    "std stdev stddev var variance min max minimum maximum count counts num time runtime elapsed seconds sec size lr "
    "norm flops"
)
_NO_MEASURE = _set_of("total number step steps epoch samples per second results metrics stats") | _HELD_OUT
_CONSOLE = later(r"(?i)stdout|stderr|tqdm|bar\b|logger|console")
_ASIDE = later(r"\[?DEBUG\b|(?i:\W*(?:load|resum|restor|sav)(?:e|ed|ing)?\b)")  # of a checkpoint
_EVALUATES = (later(r"\beval_dataset\s*=\s*(?!None\b)"), later(r"\beval(?:uation)?_strategy\s*=\s*(?![\"']no[\"'])"))
_PERCENT = later(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?([diouxXeEfFgGs])")
_BRACES = later(r"\{[^{}:]*(?::([^{}]*))?\}")
_NUMBER, _REAL, _COUNT, _TEXT = "0.1234", "0.4321", "7", "..."  # the second: its format says so
_WHOLE = "8"  # a number that is shown without its fraction, perhaps a return
_OF_TEST, _OF_VAL = "0.6789", "0.9876"  # what a function returned that evaluates
_DATA = {float(_OF_TEST): "test", float(_OF_VAL): "val"}
_SURE = frozenset({float(_REAL), *_DATA})
_EVALUATE = later(r"(?i)(?:\w+_)?(?:(test)|eval(?:uate|uation)?|val(?:id(?:ate|ation)?)?)(?:_\w+)?")  # functions
_COUNTED = later(r"(?:n|num)_|.*_(?:episodes|steps|epochs|iterations|iters|batches|runs|trials|games|samples)\Z")
_COUNTS, _WRAPS = _set_of("len int"), _set_of("str repr round float")  # functions
_MANY = later(r"(?:reward|return|score|loss|acc|error|metric|result)(?:e?s|_list)\Z")  # no number, but many
_NO_NUMBER = later(r"(?:^|_)(?:type|f?name|filename|path|dir|file|mode|device|title|msg|message)\Z|\A(?:use|has)_")
_NUMBERS = later(r"\d+")
_SETTINGS = later(r"(?i)\bvars\(|__dict__|arg|opt|conf|param|cfg|flag|state|setting|environ")
_SHOWS = later(r"(?i).*(?:print|info|log|scalar|record|writerow).*")
_SHOWN = 100  # characters of a line of source


@dataclass(frozen=True, slots=True)
class PrintedName:
    """A number that a program prints: its name as a run reads it, and the line of source that prints it."""

    name: str
    file: Source | None = None  # the one that alone has it, perhaps a tracker's; None if the console shows it
    where: str = ""
    line: int = 0
    source: str = ""
    sure: bool = True  # its format is that of a measured number
    final: bool = False  # it is printed once, when all is done
    within: tuple[int, ...] = ()  # the lines of the functions and loops that it is printed in
    also: str = ""  # where another number is printed by this name
    data: str = ""  # "test" or "val", where only the function that printed or returned it says so

    def __str__(self) -> str:
        return f"{self.name} ({self.provenance}{f'; another number by {self.also}' if self.also else ''})"

    @property
    def printed(self) -> str:
        """The line of source, and where it stands."""
        return f"{self.where}:{self.line}: {self.source}" if self.line else self.where

    @property
    def provenance(self) -> str:
        """Where it is printed or written, and how, in words."""
        return f"written into {self.file.path} by {self.printed}" if self.file else f"printed by {self.printed}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The file that alone has it."""
        return (self.file,) if self.file else ()

    @property
    def objective(self) -> Objective | None:
        """It as an objective; None where its name does not say what is to be optimised, or means two numbers.

        A loss or an accuracy that nobody says to be of held-out data may be that of the batch before an update.
        """
        words = _words(self)
        measured = words.intersection(*[chain(*_MEASURES)])
        says = measured and (measured <= _RETURNS or words & _HELD_OUT)
        return Objective(self.name, usual_direction(f'"{self.name}"', None)) if says and not self.also else None

    def beside(self, earlier: PrintedName) -> PrintedName:
        """It, where another one of this name is printed before: in other functions and loops that is another number."""
        same = earlier.where == self.where and all(a == b for a, b in zip(self.within, earlier.within, strict=False))
        another = "" if same or self.file or earlier.file else earlier.printed
        return replace(self, also=self.also or earlier.also or another)


def objectives_of(
    texts: Mapping[str, str], calls: re.Pattern[str] = _PRINTS, flags: Mapping[str, object] = MappingProxyType({})
) -> list[PrintedName]:
    """The numbers of which any may be the objective; [] if there is none.

    texts: of Python files, by path. calls: the functions that print. flags: as the command sets them.
    """
    return [*_objectives_of(tuple(texts.items()), calls, tuple(flags.items()))]


@lru_cache(maxsize=32)  # the runs of a campaign start the same programs
def _objectives_of(
    items: tuple[tuple[str, str], ...], calls: re.Pattern[str], flag_items: tuple[tuple[str, object], ...]
) -> list[PrintedName]:
    texts = dict(items)
    flags = {**never_given(texts), **dict(flag_items)}
    names: dict[str, PrintedName] = {}
    used, twice = reached_names(texts, flags), done_twice(texts, flags)
    for path, text in texts.items():
        module = calls is PLAIN_PRINTS and path != next(iter(texts))
        for one in printed_names(text, path, calls, flags, used, module=module):
            ways = (twice.get((path, line), "") for line in reversed(one.within))
            shown = replace(one, also=one.also or next(filter(None, ways), ""))
            names[one.name] = shown.beside(names[one.name]) if one.name in names else shown
    found = candidates(names.values())
    for path, text in texts.items():
        if not Trl().trains(text) or [one.name for one in found] not in ([], ["eval_loss"]):
            continue
        line = text.count("\n", 0, text.find("Trainer(")) + 1
        if "RLOOTrainer(" in text or "GRPOTrainer(" in text:  # a policy's loss does not say how good it is
            return [_at("reward", path, line, text)]
        evaluates = ".evaluate(" in text or "compute_metrics" in text  # by numbers that no text names
        usual = "eval_loss" if all(pattern.search(text) for pattern in _EVALUATES) else "loss"
        return found or ([] if evaluates else [_at(usual, path, line, text)])
    return found


def printed_names(
    text: str,
    where: str = "",
    prints: re.Pattern[str] = _PRINTS,
    flags: Mapping[str, object] = MappingProxyType({}),
    used: Collection[str] | None = None,
    *,
    module: bool = False,
) -> list[PrintedName]:
    """The measured numbers that a Python text prints or writes, the last one last; [] for one that cannot be parsed.

    A number on the console comes before the same one in a file; whole numbers are counts. used: the functions and
    classes that the program reaches, if not all. module: it is imported, and no program itself.
    """
    tree = syntax_tree(text)
    if tree is None:
        return []
    left, final = not_done(tree, flags), set(_after_loops(tree))
    off = before_training(tree) | left | (as_program(tree) if module else set())
    calls = {node for node in ast.walk(tree) if isinstance(node, ast.Call) and prints.fullmatch(called_name(node.func))}
    _put_built_texts(tree, calls, left)
    if used is not None:
        off.update(node for node, name in definitions(tree).items() if name not in used)
    places, evaluating = _lines_around(tree), _evaluating(tree)
    names: dict[str, PrintedName] = {}
    for call in sorted(filter(_on_console, calls - off), key=lambda call: (call.lineno, call.col_offset)):
        for line in _lines_of(call):
            pairs = None if _ASIDE.match(line) else parse(body(line))
            for name, value in pairs.metrics.items() if pairs else ():
                of_return = value == float(_WHOLE) and not _RETURNS.isdisjoint(re.split(r"[\W_]+", name.lower()))
                if step_rank(name) is None and (of_return or not is_count(value)):
                    before, file = names.pop(name, None), _TRACKERS.get(_tracker(call))
                    found = _at(name, where, _line_of(name, call, text), text)
                    found = replace(found, file=file, sure=value in _SURE, final=call in final, within=places[call])
                    found = replace(found, data=_DATA.get(value, evaluating.get(call, "")))
                    shown = before if before and file and not before.file else None  # on the console, too
                    names[name] = shown or (found.beside(before) if before else found)
    for name, call in _fitted(tree) if "keras" in text else ():
        if call not in off:
            names.setdefault(name, _at(name, where, call.lineno, text))
    for one in written_names(tree, flags):
        if one.call not in off and step_rank(one.name) is None:
            names.setdefault(one.name, replace(_at(one.name, where, one.call.lineno, text), file=one.file))
    return list(names.values())


def _fitted(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """What Keras's `fit` prints of validation data: what a callback watches, else its loss and its metrics."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    keywords = {call: {one.arg: one.value for one in call.keywords} for call in calls}
    watched = {word: call for call in calls for word in _words_of([keywords[call].get("monitor")])}
    fits = [call for call in calls if called_name(call.func) in ("fit", "fit_generator")]
    loud = [one for one in fits if ast.unparse(keywords[one].get("verbose", ast.Constant(1))) != "0"]
    yield from watched.items() if loud else ()
    for call in loud[:1] if not watched else ():
        if keywords[call].keys() & {"validation_data", "validation_split"}:
            metrics = [keywords[one].get("metrics") for one in calls if called_name(one.func) == "compile"]
            listed = [word for one in metrics if isinstance(one, ast.List) for word in _words_of(one.elts)]
            yield from ((f"val_{name}", call) for name in ("loss", *listed))


def shown_by_name(text: str, flags: Mapping[str, object], used: Collection[str]) -> int:
    """The line of a text that shows numbers whose names only a run knows: `print(f"{k}: {v}")`; 0 if none does."""
    tree = syntax_tree(text) or ast.Module([], [])
    off = before_training(tree) | not_done(tree, flags)
    off.update(node for node, name in definitions(tree).items() if name not in used)
    for loop in ast.walk(tree):
        each = getattr(loop, "generators", [loop])[0]
        match getattr(each, "iter", None), getattr(each, "target", None):
            case ast.Call(func=ast.Attribute(value=of, attr="items")), ast.Tuple(elts=[ast.Name(id=k), ast.Name(id=v)]):
                if loop in off or _SETTINGS.search(ast.unparse(of)):
                    continue
            case _:
                continue
        for node in ast.walk(loop):
            inner = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            if f"len({v})" in ast.unparse(node):
                continue
            match node:
                case ast.JoinedStr(lineno=line) if {k, v} <= inner:
                    return line
                case ast.Call(func=func, lineno=line) if {k, v} <= inner and _SHOWS.fullmatch(called_name(func)):
                    return line
    return 0


def _lines_around(tree: ast.AST) -> dict[ast.AST, tuple[int, ...]]:
    """The lines of the functions and loops that each node stands in."""
    places: dict[ast.AST, tuple[int, ...]] = {tree: ()}
    for node in ast.walk(tree):  # what is outside comes first
        within = places[node]
        if isinstance(node, ast.FunctionDef | ast.For | ast.While):
            within = (*within, node.lineno)
        places.update(dict.fromkeys(ast.iter_child_nodes(node), within))
    return places


def _evaluating(tree: ast.AST) -> dict[ast.AST, str]:
    """The nodes in functions that evaluate, and on what; names of values that such a function returned say so."""
    nodes = [*ast.walk(tree)]
    scope: dict[ast.AST, ast.FunctionDef] = {}
    for node in nodes:  # what is outside comes first
        scope.update(dict.fromkeys(ast.walk(node), node) if isinstance(node, ast.FunctionDef) else {})
    assigned: dict[tuple[ast.AST | None, str], set[str]] = {}  # what a variable is of; "" for anything else
    for node in nodes:
        if isinstance(node, ast.Assign):
            data = _data_of(called_name(node.value.func)) if isinstance(node.value, ast.Call) else ""
            for one in (inner for target in node.targets for inner in ast.walk(target)):
                assigned.setdefault((scope.get(node), called_name(one)), set()).add(data)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            of = assigned.get((scope.get(node), node.id), {""})
            node.id = f"{node.id} of {min(of)}" if len(of) == 1 and min(of) else node.id  # for `_shown`
    loops = [node for node in nodes if isinstance(node, ast.For | ast.While) and node in scope]
    batches = {inner for loop in loops for inner in ast.walk(loop)}  # of which each has a number
    return {one: data for one, it in scope.items() if one not in batches and (data := _data_of(it.name))}


def _data_of(function: str) -> str:
    match = _EVALUATE.fullmatch(function)
    return "" if match is None else "test" if match[1] else "val"


def _put_built_texts(tree: ast.AST, calls: Collection[ast.Call], off: Collection[ast.AST]) -> None:
    """Give calls the text itself in the place of a variable that was built before: `line = ...`, `line += ...`."""
    built: dict[str, list[ast.expr]] = {}  # the parts of each text
    done = (node for node in ast.walk(tree) if node not in off)
    nodes = [*calls, *(node for node in done if isinstance(node, ast.Assign | ast.AugAssign))]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                for part in value.values if isinstance(value, ast.JoinedStr) else ():
                    match part:
                        case ast.FormattedValue(value=ast.Name(id=inner)) if inner in built:
                            part.value = ast.JoinedStr(values=[*built[inner]])
                built.pop(name, None)
                if _is_text(value):
                    built[name] = [value]
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in built:
                if _is_text(value):
                    built[name].append(value)
            case ast.Call(args=[ast.Name(id=name), *_]) if name in built:
                node.args[0] = ast.JoinedStr(values=[*built[name]])
                node.lineno = built[name][0].lineno  # the lines that a reader is shown
            case ast.Call(args=[ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="format") as filled), *_]):
                filled.value = _template(built.get(name)) or filled.value
            case ast.Call(args=[ast.BinOp(left=ast.Name(id=name), op=ast.Mod()) as filled, *_]):
                filled.left = _template(built.get(name)) or filled.left


def _template(parts: list[ast.expr] | None) -> ast.Constant | None:
    """The one text that a variable is, with places for values."""
    return parts[0] if parts and len(parts) == 1 and isinstance(parts[0], ast.Constant) else None


def _after_loops(tree: ast.AST) -> Iterator[ast.AST]:
    """The calls behind the last loop of a script, or of its `main`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.If) or (isinstance(node, ast.FunctionDef) and node.name == "main"):
            loops = [n for n, one in enumerate(node.body) if isinstance(one, ast.For | ast.While)]
            after = node.body[loops[-1] + 1 :] if loops else []
            yield from (one.value for one in after if isinstance(one, ast.Expr))


def _on_console(call: ast.Call) -> bool:
    """Whether what a call writes is shown, and does not go to a file."""
    to = next((one.value for one in call.keywords if one.arg == "file"), None)
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("write"):
        to = call.func.value
    return to is None or bool(_CONSOLE.search(ast.unparse(to)))


def _line_of(name: str, call: ast.Call, text: str) -> int:
    """The line of a call that names the number; its first one where none does."""
    lines = text.split("\n")[call.lineno - 1 : call.end_lineno]
    return call.lineno + next((n for n, line in enumerate(lines) if name in line.replace(" ", "_")), 0)


def _at(name: str, where: str, line: int, text: str) -> PrintedName:
    source = text.split("\n")[line - 1].strip()
    at = source.replace(" ", "_").find(name)
    start = at - 20 if at + len(name) > _SHOWN else 0  # the name shall be seen
    return PrintedName(name, None, where, line, f"{'...' if start else ''}{source[start : start + _SHOWN]}")


def candidates(names: Iterable[PrintedName]) -> list[PrintedName]:
    """Those that are most worth optimising, of which one is as likely as the other; [] without one.

    The console's come before a file's, unless the file has something else that is measured on held-out data, and the
    console has not.
    """
    every = list(names)
    shown, written = _best([one for one in every if not one.file]), _best([one for one in every if one.file])
    if shown and written and _rank(written[0]) < _rank(shown[0]):
        known = [_core(one) - _HELD_OUT for one in shown]
        return [*shown, *(one for one in written if _core(one) - _HELD_OUT not in known)]
    return shown or written


def _split(printed_name: PrintedName) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z0-9]+", printed_name.name.lower())) - {""}


def _words(printed_name: PrintedName) -> frozenset[str]:
    words = _split(printed_name)
    words |= {printed_name.data} - {""} if not words & (_HELD_OUT | _OF_TRAINING) else set()
    return words - {"max"} if words & {"acc", "accuracy"} else words  # the highest loss is an outlier


def _core(printed_name: PrintedName) -> frozenset[str]:
    """The words that say of what a number is."""
    return frozenset(_SAME.get(word, word) for word in _words(printed_name) - _NO_DIFFERENCE) - {""}


def _measure(printed_name: PrintedName) -> int:
    """Which measure a name says, 1 for the best kind, 0 for none; the loss of a reward model is a loss."""
    words = _words(printed_name)
    return max((n for n, measured in enumerate(_MEASURES, 1) if words & measured), default=0)


def _rank(printed_name: PrintedName) -> int:
    """0 for a number that is measured on held-out data, then that of its measure; more for what nobody optimises."""
    words, measure = _words(printed_name), _measure(printed_name)
    if words & _NEVER or not measure:
        return len(_MEASURES) + 1
    return 0 if words & _HELD_OUT else measure


def _best(names: list[PrintedName]) -> list[PrintedName]:
    """The likeliest of the best rank, and what is measured on held-out data by whatever name, if that rank is not."""
    fair = [one for one in names if not _words(one) & _NEVER]
    others = [one for one in fair if one.sure and _words(one) & _HELD_OUT and not _measure(one)]  # `valid corr`
    others = [one for one in others if {len(word) for word in _split(one) - _HELD_OUT} != {1}]  # not `T_eval`
    for rank in range(len(_MEASURES) + 1):
        if fit := _likeliest([one for one in fair if _rank(one) == rank]):
            return [*fit, *(others if rank else _beside(fit, fair))]
    return _likeliest([one for one in others if _words(one) - _NO_MEASURE])


def _beside(losses: list[PrintedName], names: list[PrintedName]) -> list[PrintedName]:
    """Measures of another thing that stand beside held-out losses: `Top 1-err 5.2 Test Loss 0.3`."""
    known = {_core(one) - _HELD_OUT for one in losses}
    told = [one for one in losses if _measure(one) == len(_MEASURES) and one.line and not one.file]
    places = {(one.where, one.within) for one in told}
    here = [one for one in names if (one.where, one.within) in places and one not in losses and _measure(one)]
    here = [one for one in here if not _words(one) & (_OF_TRAINING | {"loss"})]  # the one that is minimised
    return [one for one in here if _core(one) - _HELD_OUT not in known]


def _likeliest(names: list[PrintedName]) -> list[PrintedName]:
    """Those that no other one is to be preferred to.

    What is measured on validation data comes before test data, a plain name (`loss`) before that of a part
    (`policy_loss`), @1 before @5, the value before the best so far, a mean before one value, and the last of those that
    are the same. Of different ones, those that are printed at the end, after the loop.
    """
    validated = [one for one in names if _words(one) & _VALIDATION]
    fit = validated or names
    cores = {one: _core(one) for one in fit}
    whole = [cores[one] for one in fit if not _words(one) & _CODES]
    plain = [one for one in fit if not any(core < cores[one] for core in whole)]
    firsts = {_NUMBERS.sub("#", one.name) for one in plain if _NUMBERS.findall(one.name) == ["1"]}
    plain = [one for one in plain if _NUMBERS.sub("#", one.name) not in firsts or _NUMBERS.findall(one.name) == ["1"]]
    plain.sort(key=lambda one: (not _split(one) & _SO_FAR, bool(_split(one) & _MEANS)))
    found = sorted({cores[one]: one for one in plain}.values(), key=names.index)
    return [one for one in found if one.final] or found


def _tracker(call: ast.Call) -> str:
    """The tracker that this call tells, of those whose files a run reads; "" for the console."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            words = set(name.lower().split("_"))
            return next((tracker for tracker in _TRACKERS if tracker in words), "wandb" if words == {"run"} else "")
    return ""


def _lines_of(call: ast.Call) -> list[str]:
    try:
        return [*_lines(call)]
    except RecursionError:  # a sum of thousands of texts
        return []


def _lines(call: ast.Call) -> Iterator[str]:
    """The lines that a call prints, with numbers for its values."""
    arguments = [one for one in call.args if not isinstance(one, ast.Starred)]
    first, name = arguments[0] if arguments else None, called_name(call.func)
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    if name == "log_metrics" and text:  # transformers: `eval` names the split
        yield f"{text}_loss {_REAL}"
    elif name.startswith("log") and "print" not in name and not _tracker(call) and not _shows(call):
        return
    elif name == "set_postfix":
        yield " ".join([*map(_shown, arguments), *(f"{one.arg}={_shown(one.value)}" for one in call.keywords)])
    elif _PERCENT.search(text):
        yield from _with_numbers(text, call.args[1:]).splitlines()  # logging takes the values as arguments
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
            return _formatted(spec[-1:], _shown(node.value))
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod(), right=right):
            return _with_numbers(text, right.elts if isinstance(right, ast.Tuple) else [right])
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mult()):
            return text
        case ast.BinOp(op=ast.Add()) if _is_text(node.left) or _is_text(node.right):
            return _shown(node.left) + _shown(node.right)
        case ast.BinOp(op=ast.Add(), left=left):
            return _shown(left)  # `epoch + 1`
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format"), args=args):
            values = chain(map(_shown, args), repeat(_NUMBER))
            return _BRACES.sub(lambda spec: _formatted((spec[1] or "")[-1:], next(values)), text)
        case ast.Call(func=function, args=[ast.Dict() as first, *_]) if called_name(function) == "dumps":
            return json.dumps(_pairs(first))
        case ast.Call(func=function, args=[_]) if called_name(function) in _COUNTS:
            return _COUNT
        case ast.Call(func=function, args=[first, *_]) if _is_text(first) or called_name(function) in _WRAPS:
            return _shown(first)
        case ast.Dict():
            return str(_pairs(node))
        case ast.ListComp():
            return _TEXT
        case ast.Name(id=name) if (data := name.rpartition(" of ")[2]) in ("test", "val") and data != name:
            return _OF_TEST if data == "test" else _OF_VAL
        case ast.Name(id=name) | ast.Attribute(attr=name) if step_rank(name) is not None or _COUNTED.match(name):
            return _COUNT
        case ast.Name(id=name) | ast.Attribute(attr=name) if _NO_NUMBER.search(name):
            return _TEXT
        case ast.Name(id=name) if _MANY.search(name):
            return _TEXT
        case ast.Attribute(value=ast.Name(id="args" | "opts" | "opt" | "FLAGS")):  # a setting
            return _TEXT
    return _NUMBER


def _formatted(kind: str, shown: str = "") -> str:
    """A number with this letter at the end of its format; what is shown anyway where it may be anything."""
    real = shown if shown in (_OF_TEST, _OF_VAL) else _REAL
    whole = _COUNT if shown == _COUNT else _WHOLE
    return whole if kind in ("d", ",", "i", "x", "X") else real if kind and kind in "eEfFgG%" else shown


def _pairs(node: ast.Dict) -> dict[str, float | int]:
    shown = {key.value: _shown(value) for key, value in zip(node.keys, node.values, strict=True)
             if isinstance(key, ast.Constant) and isinstance(key.value, str)}  # fmt: skip
    return {key: int(text) if text == _COUNT else float(text) for key, text in shown.items()
            if text in (_NUMBER, _REAL, _COUNT)}  # fmt: skip


def _with_numbers(text: str, values: Sequence[ast.expr] = ()) -> str:
    told = chain(map(_shown, values), repeat(_NUMBER))
    return _PERCENT.sub(lambda spec: _formatted(spec[1], next(told)), text)


def _words_of(nodes: Iterable[ast.expr | None]) -> list[str]:
    return [one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _is_text(node: ast.expr | None) -> bool:
    while isinstance(node, ast.BinOp):  # a sum may have thousands of parts
        if _is_text(node.right):
            return True
        node = node.left
    match node:
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _is_text(text)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))

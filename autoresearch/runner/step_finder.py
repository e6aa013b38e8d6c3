"""Finds the steps and metrics of a log that nobody described, for the Runner and the readers alike.

Any number with a step's name may count the steps. A name is taken once its number has grown twice on lines that also
carry a metric; of several, the finest is taken. Lines with one pair each are one block as far as its frame goes: to a
drawn rule, a blank line, a heading, a name that comes again. Lines without that name (a validation, a summary at the
end) belong to the step before them, unless their own number fits between the steps. Where no line names a step, lines
are counted.
"""

from __future__ import annotations

import re

from .basics import LazyPattern
from .metric_lines import (
    BAR,
    LEADING,
    LONGEST,
    NUMBER,
    RANK,
    RULE,
    ParsedLine,
    TableRow,
    Tables,
    as_declared,
    bars,
    body,
    by_same_name,
    is_count,
    is_validation,
    known_metric,
    parse,
    plausible,
    same_name,
    step_rank,
)
from .text import Needles, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GROWS = 2  # times that a step must have grown before it is taken
GROWS_UNKNOWN = 10  # ... where no metric beside it has a usual name
LOOKED_AT = 1 << 21  # bytes of a log of which every line is looked at; later only lines with one of _NEEDLES
_UNNAMED = RANK[BAR] + 1  # the rank of a first number whose name is no usual one
_COUNTED = _UNNAMED + 1  # ... and of lines that are counted
_MOST_AXES = 256
_MOST_PENDING = 20_000  # lines kept until a step is taken
_MOST_BETWEEN = 20  # lines without a number within a block
_USUAL_STEPS = ("step", "global_step", "global_steps", "_step", "train/step", "train/global_step", "iteration")
_VERL = ("actor/", "critic/", "train/", "val-core/")

# Every line that may be taken has a word for a step or a metric, or is a part of a table or a tree. It is searched in
# lower case: a pattern that ignores case takes five times as long.
_TELLING = (
    rb"step|iter|epoch|episode|update|gen|round|batch|frame|loss|cost|reward|return|acc|score|kl|entrop|grad|norm|perp|ppl|"
    rb"bp[bc]|err|val|test|mse|mae|f1|auc|bleu|elo|iou|r2|nll|success|pass|win|fitness|objective|advantage|regret|len|map[@\d_]|"
    rb"psnr|ssim|lpips|fid|wer|cer|dice|mrr|ndcg|rouge|recall|[pr]@|"
    rb"\||\xe2\x94[\x82\x83]|:\s*$"
)
_NUMBER = LazyPattern(rb"\d|(?<![\w/.-])(?i:nan|inf)(?![\w/.-])")
_SEPARATED = LazyPattern(r"  |[,;\t]")  # a header may name f1 or top5
_NEEDLES = ("step", "iter", "epoch", "episode", "update", "loss", "reward", "val_", "\n|")
_HEADING = LazyPattern(  # `Test set:`, `| Validation Epoch #3`, `Evaluating test:`, before what was measured there
    r"(?:\[[^\]]*\]\s*|(?:epoch|iter\w*|step)\W{1,3}\d+(?:/\d+)?\W+)?(?:\w+ |\[)?"
    r"(val|eval|test|dev)(?:id|idation|uation|ing)?(?: set| results?| metrics)?"
    r"(?:\s*[:|\]]|\s{2,}|\s+-|(?=\s+\[?(?:epoch|iter|step)))(?!\s*[-+]?[\d.])"
    r"|epoch\((val|test)\)",
    re.I,
)
_BATCH = LazyPattern(r"(?:val|eval|test)\w*\W{1,6}(?:epoch\W*)?(?:\[\d+\]\s*)?\[\s*\d+\s*/\s*\d+\]", re.I)
_MEAN_SO_FAR = LazyPattern(r"\s[-+.\de]+\s+\(\s*([-+.\de]+)\s*\)")  # `Test: [10/98] Acc@1 62.5 (71.2)`: 71.2
_LABELLED = LazyPattern(r"\[(val|eval|test)(?:id|idation|uation|ing)?\]", re.I)
_DRAWN = LazyPattern(r"[-=*#~+\u2500-\u257f]{2,}\s*\w")  # `=== Iteration 3 ===`
_BARS = "|\u2502\u2503"
_ROW = LazyPattern(
    rf"[{_BARS}]\s*(?P<name>[^{_BARS}]+?)(?:\s*[{_BARS}]|\s{{2,}})\s*(?P<value>[^{_BARS}\s]*)\s*[{_BARS}]\s*\Z"
)
_BRANCH = LazyPattern(r"(?P<indent>\s*)(?P<name>[^\W\d][\w./-]*):\Z")


class FoundLine:
    """The metrics of one line, or of one block of lines. `counted`: its step is an ordinal, which no line names."""

    __slots__ = ("at", "counted", "main", "metrics", "step", "text")

    def __init__(self, step: int, metrics: dict[str, float], parsed: ParsedLine, *, counted: bool, main: bool) -> None:
        self.step = step
        self.metrics = metrics
        self.at = parsed.at  # the clock's time that was passed with the line
        self.text = parsed.text
        self.counted = counted
        self.main = main  # whether it carries the step that was taken

    @property
    def validates(self) -> bool:
        """Whether a name says that it was measured on held-out data."""
        return any(map(is_validation, self.metrics))


class StepName:
    """One name whose numbers may be the steps."""

    def __init__(self, step_name: str, rank: int) -> None:
        self.step_name = step_name
        self.rank = rank
        self.grows = self.grows_known = self.falls = self.restarts = self.resets = self.count = self.known = 0
        self.first: int | None = None
        self.last: int | None = None
        self.before: int | None = None  # the number before the last, which a bar may show again
        self.known_at: int | None = None  # the number on the last line with a metric that is usual
        self.above = True  # no line with a metric has it itself, but one above such lines
        self.certain = False  # proven by one line, as Hugging Face's dicts are
        self.example = ""
        self.names: dict[str, float] = {}  # the first value of each metric beside it
        self.changes = False  # whether any of them changes, as what is measured does

    def see(self, value: int, pairs: ParsedLine, known: int) -> bool:
        """Note the number on one more line; whether it grew."""
        redrawn = value == self.before and "%|" in pairs.text
        grew = self.last is not None and value > self.last and not redrawn
        if self.last is None:
            self.first = value
        elif value < self.last and not redrawn:
            self.falls += 1
            self.restarts += value <= (self.first or 0)
        self.grows += grew
        if known:
            self.grows_known += self.known_at is not None and value > self.known_at and not redrawn
            self.known_at = value
        if value != self.last:
            self.before, self.last = self.last, value
        self.count += 1
        self.known = max(self.known, known)
        self.example = self.example or pairs.text
        self.changes = self.changes or any(self.names.get(name, v) != v for name, v in pairs.metrics.items())
        if len(self.names) < 100 and not pairs.metrics.keys() <= self.names.keys():
            self.names = {**pairs.metrics, **self.names}
        return grew

    @property
    def qualifies(self) -> bool:
        """Whether these are steps. A resumed run may go back; a number that starts again all the time is no step."""
        if self.certain:
            return True
        if self.rank == _COUNTED:
            return self.known == 2 or (self.known == 1 and self.count > GROWS and self.changes)
        if self.restarts > 1 or self.falls * 4 > self.grows:
            return False
        if self.resets and not self.falls and (self.grows_known or self.rank < RANK[BAR]):
            return True
        if self.rank == _UNNAMED:
            return not self.falls and self.grows_known >= (GROWS if self.known == 2 else GROWS_UNKNOWN)
        if self.grows_known >= GROWS:
            return True
        return self.grows >= GROWS_UNKNOWN and not self.falls and self.step_name != BAR and self.changes

    @property
    def likely(self) -> bool:
        """Whether these are steps at the end of a log that has no others: they only grew, beside what changed."""
        if self.falls or self.rank >= RANK[BAR] or not self.changes:
            return False
        return GROWS <= self.grows == self.count - 1 or bool(self.grows_known and self.count > GROWS)

    @property
    def order(self) -> tuple[bool, bool, int, bool, int, int, int]:
        """The axis with the smallest is preferred."""
        counted, rank = self.rank == _COUNTED, max(self.rank, RANK[BAR] * self.above)
        return counted, not self.known, rank, self.above, -self.count, -(self.last or 0), len(self.step_name)


def _heading(text: str, words: str) -> str:
    """The held-out data that a line is about, as the beginning of a name; "" for none. `words`: its body."""
    found = _HEADING.match(words) or _LABELLED.search(text, 0, len(text) - len(words))
    return f"{(found[1] or found[2]).lower()}/" if found else ""


def _spoken(name: str) -> str:
    """The regex of a declared name and the number right behind it, whatever separates the words of the name."""
    words = r"[\W_]{1,3}".join(re.escape(word) for word in re.findall(r"[^\W_]+", name) or [name])
    number = r"([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?![\w/:]|[.,]\d)"
    return rf"(?<!\w)(?<!best ){words}(?:\s*[:=]\s*|\s+)(?:is\s+)?{number}"


class StepFinder:
    """Reads one log from its beginning. `names`: declared metrics, which are read wherever they stand."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        names = tuple(filter(None, names))
        self.names = by_same_name(names)
        self.axes: dict[str, StepName] = {}
        self.axis: StepName | None = None  # the one that was taken
        self.changed_from = ""  # the step that was taken before
        self._fractional: set[str] = set()
        words = [*map(str.encode, (*_NEEDLES, *names)), b"\n\xe2\x94\x82"]
        self._needles = Needles(words, either_case=True), Needles([*words, b"%|"], either_case=True)
        self._telling = re.compile(_TELLING + b"".join(b"|" + re.escape(name.encode().lower()) for name in names))
        self._declared = [(name, re.compile(_spoken(name), re.I)) for name in names]
        self._bytes = 0
        self._tables = Tables()
        self._headings: dict[str, int] = {}  # steps of lines without metrics, which those below belong to
        self._batch: ParsedLine | None = None  # the line above, if of an evaluation's batch
        self._leading: set[str] = set()  # names of steps that stood above a block
        self._group = ""
        self._tree: list[tuple[int, str]] = []  # branches above the present line: (indentation, name)
        self._block: ParsedLine | None = None
        self._indent = 0  # of its first line
        self._between = 0  # lines in it that hold no number
        self._pending: list[ParsedLine] = []
        self._tail: list[ParsedLine] = []  # what was left out since the last step
        self._once: dict[str, float] = {}  # what was printed once, after the last step
        self._early: list[FoundLine] = []  # lines that had to be placed before the end, as there were too many
        self._step: int | None = None  # the last step on the axis
        self._gap = 1 << 53  # between two steps; of the first nothing is known
        self._count = 0

    # -- reading ------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes, at: float = 0.0) -> None:
        """Read a chunk of whole lines. `at`: a time, handed back with the lines."""
        for raw in self._lines(chunk.replace(b"\r", b"\n")):
            self._look(raw, at)
        self._bytes += len(chunk)

    def take(self) -> list[FoundLine]:
        """What was found since the last call; nothing until a step was taken. A better one is taken once."""
        self._choose()
        return self._resolved() if self.axis is not None else []

    def _choose(self) -> None:
        best = self._best()
        if self.axis is None:
            self.axis = best
        elif best is not None and best is not self.axis and not self.changed_from:
            if not self.axis.qualifies or best.order[:3] < self.axis.order[:3]:
                self.changed_from, self.axis = self.axis.step_name, best
                self._step = None
                self._early = []

    def take_unproven(self) -> list[FoundLine]:
        """What was found, although no step has grown twice: the limit to the first step is reached."""
        if self.axis is None:
            self._close()
            likely = [one for one in self.axes.values() if one.known and one.rank < _UNNAMED and not one.falls]
            self.axis = self._best() or min(likely, key=lambda one: one.order, default=None)
        return self.take()

    def end(self) -> list[FoundLine]:
        """What was found since the last `take`, at the end of a log.

        Where no step was proven, one that only grew is taken. A log with a declared metric, or a table
        of results, needs none: its lines are read as they are.
        """
        self._close()
        self.axis = self.axis or self._best()
        if self.axis is None:
            grown = [one for one in self.axes.values() if one.likely and one.step_name not in self._fractional]
            named = [seen for seen in self._pending if self.names and plausible(seen.metrics, self.names) == 2]
            beside = [self.axes[name] for seen in named for name in seen.counters if name in self.axes]
            results: list[ParsedLine] = [seen for seen in self._pending if isinstance(seen, TableRow) and seen.dump]
            usable = [one for one in beside if one.rank < RANK[BAR] + bool(one.grows) and not one.falls]
            if usable and not any(one in grown for one in usable):
                grown, self._pending = usable, named
            elif not grown and (named or results):
                grown, self._pending = [StepName("", _COUNTED)], named or results
            self.axis = min(grown, key=lambda one: one.order, default=None)
        return [*self._resolved(), *self._last_words(self.axis)] if self.axis is not None else []

    def summary(self) -> str:
        """What was taken: "read `iter` as the step, and loss, reward, from 412 lines like `iter 100 | ...`"; or ""."""
        if self.axis is None or not self.axis.example:
            return ""
        names = [name for name in self.axis.names if name != self.axis.step_name]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        shape = f"{self.axis.count} line{'s' if self.axis.count > 1 else ''} like `{self.axis.example[:160].strip()}`"
        shape += f"; after the last of them {', '.join(self._once)}" if self._once else ""
        if self.axis.rank == _COUNTED:
            return f"read {shown} from {shape}; they name no step and are counted"
        before = f" (first {_shown(self.changed_from)})" if self.changed_from else ""
        return f"read {_shown(self.axis.step_name)} as the step{before}, and {shown}, from {shape}"

    # -- lines --------------------------------------------------------------------------------------------------

    def _lines(self, flat: bytes) -> Iterator[bytes]:
        """The lines to look at: all at first and within a table or block, else those with a needle."""
        at, size = 0, len(flat)
        axis = self.axis or self._best()  # bars of something else are most of the output of many programs
        needles = self._needles[axis is None or axis.step_name == BAR or "%|" in axis.example]
        while at < size:
            if self._bytes + at > LOOKED_AT and not (self._tables.steps or self._tables.rows or self._block):
                found = needles.regex and needles.regex.search(flat, max(0, at - 1))
                if found is None:
                    return
                at = max(at, flat.rfind(b"\n", 0, found.start() + 1) + 1)
            high = flat.find(b"\n", at)
            high = size if high < 0 else high
            yield flat[at:high]
            at = high + 1

    def _look(self, raw: bytes, at: float) -> None:
        tabled = self._tables.steps or self._tables.rows
        if len(raw) > 4 * LONGEST or not (tabled or self._block or self._tree or self._telling.search(raw.lower())):
            return
        text = clean(raw).decode("utf-8", "replace").rstrip()
        frame = bars(text)
        if 1 < frame < 4 and self._cell(text, at):
            return
        words = body(text)
        cells = text if frame > 3 else words
        if not _NUMBER.search(raw):
            self._look_at_words(text, cells)
            return
        row = self._tables.row(cells) if tabled else None
        if row is not None:
            row.at, row.text = at, cells
            if isinstance(row, TableRow):
                self._add(row, 0)
            else:
                self._see(row, tabled=row.steps.keys() != {NUMBER})
            return
        batch = "/" in words and _BATCH.match(words)
        line = parse(_MEAN_SO_FAR.sub(r" \1", words) if batch else words)
        if line is not None:
            line.at, line.text, line.heading = at, words, _heading(text, words)
            above, self._batch = self._batch, line if batch else None
            if above and not line.heading and not line.steps and line.metrics.keys() <= above.metrics.keys():
                line.heading = above.heading  # ` * Acc@1 71.2`, of all batches
            self._add_declared(line, words)
        no_metrics = line is None or not line.metrics or "%|" in words
        if no_metrics and _SEPARATED.search(cells) and self._tables.begins(cells):
            self._close()
        elif line is None or (not line.bare and not line.dump and not plausible(line.metrics, self.names)):
            self._pass_over()
        elif len(line.steps) + len(line.metrics) == 1 and not line.dump and line.bare:
            drawn = bool(line.steps) and _DRAWN.match(text.lstrip()) is not None
            self._add(line, len(text) - len(text.lstrip()), drawn=drawn)
        else:
            self._close()
            if line.metrics:
                self._see(line)
            if line.bare and len(line.metrics) < 2 and not plausible(line.metrics, self.names):  # `Epoch 3 | time 12s`
                self._head(line)

    def _add_declared(self, parsed: ParsedLine, words: str) -> None:
        """Read a declared metric in the middle of a sentence: `sweep 3: energy of it 0.5 after cooling`."""
        have = set(map(same_name, parsed.metrics)) if self._declared else ()
        for name, pattern in self._declared:
            prose = not parsed.bare or " " in name
            if prose and same_name(name) not in have and (found := pattern.search(words)):
                parsed.metrics[name] = float(found[1].replace(",", ""))

    def _look_at_words(self, text: str, cells: str) -> None:
        """A line without a number: a CSV header, a branch of a tree (`env_runners:`), or the end of a block."""
        branch = _BRANCH.match(text)
        if branch:
            indent = len(branch["indent"])
            self._tree = [(at, name) for at, name in self._tree if at < indent]
            self._tree.append((indent, branch["name"]))
        elif not self._tables.goes_on(cells):
            begins = self._tables.begins(cells)
            self._tables.rows = self._tables.rows if begins else None
            if begins or RULE.match(text):
                self._close()
            else:
                self._pass_over()

    def _pass_over(self) -> None:
        """Go on with the block after a line that holds nothing, if it has few of them."""
        self._between += 1
        if self._between > _MOST_BETWEEN:
            self._close()

    def _cell(self, text: str, at: float) -> bool:
        """Add one row of a two-column table to the block; False if it is none."""
        found = _ROW.search(text)
        if found is None:
            return False
        if not found["value"] and found["name"].endswith("/"):  # SB3: a group of rows follows
            self._group = found["name"]
            return True
        try:
            value = float(found["value"].replace(",", ""))
        except ValueError:
            return True
        line = ParsedLine()
        line.add(self._group + re.sub(r"\s+", "_", found["name"]), value)
        line.at, line.text = at, text
        self._add(line, 0)
        return True

    def _add(self, pairs: ParsedLine, indent: int, *, drawn: bool = False) -> None:
        """Add a row, or a line with a single pair, to the block, which ends where a name comes again.

        A step that is `drawn`, as headings are, or stands further to the left begins another.
        """
        self._tree = [(above, branch) for above, branch in self._tree if above < indent]
        if self._tree:
            pairs.rename("/".join([*(branch for _, branch in self._tree), *pairs.steps, *pairs.metrics]))
        block = self._block
        if block is not None and (
            type(block) is not type(pairs)
            or (pairs.heading != block.heading and (pairs.heading or pairs.steps))
            or any(name in block.steps or name in block.metrics for name in (*pairs.steps, *pairs.metrics))
            or len(block.metrics) > 200
            or (not block.steps and self._leading & pairs.steps.keys())
            or drawn
            or (pairs.steps and not self._tree and indent < self._indent)
        ):
            group, tree = self._group, self._tree
            self._close()
            self._group, self._tree = group, tree
            block = None
        if block is None:
            self._leading.update(pairs.steps)
            block = self._block = type(pairs)()
            block.heading, block.dump, block.at, block.text = pairs.heading, pairs.dump, pairs.at, pairs.text
            self._indent = 0 if self._tree else indent
        block.steps.update(pairs.steps)
        block.metrics.update(pairs.metrics)
        if pairs.steps:
            self._head(pairs)

    def _head(self, pairs: ParsedLine) -> None:
        """Take a line's steps as those of the lines below, beside coarser ones that were named before."""
        self._headings = _with_coarser({name: value for name, (value, _) in pairs.steps.items()}, self._headings)

    def _close(self) -> None:
        block, self._block, self._group = self._block, None, ""
        self._tree, self._between = [], 0
        if block is not None and block.metrics:
            self._see(block, block=True)

    # -- steps --------------------------------------------------------------------------------------------------

    def _see(self, pairs: ParsedLine, *, block: bool = False, tabled: bool = False) -> None:
        """Note a line with metrics, and every number that may be its step. The columns of a table are metrics."""
        known = plausible(pairs.metrics, self.names) or int(tabled)
        if not pairs.bare and not pairs.dump and known < 2:
            return
        steps = {name: value for name, (value, _) in pairs.steps.items()}
        if pairs.heading:
            steps.pop(BAR, None)  # which of its batches
        self._fractional.update(name for name in pairs.metrics if step_rank(name) is not None)
        if self._headings:
            self._headings = {name: n for name, n in self._headings.items() if steps.get(name, n) == n}
            steps = _with_coarser(steps, self._headings)
        pairs.counters = steps
        self._pending.append(pairs)
        if isinstance(pairs, TableRow):
            return
        if not steps or steps.keys() == {BAR}:
            first, value = next(iter(pairs.metrics.items()))
            if is_count(value) and not known_metric(first) and len(pairs.metrics) > 1:
                steps[first] = int(value)
        grown: list[StepName] = []
        fallen: list[StepName] = []
        for name, value in steps.items():
            if len(self.axes) < _MOST_AXES or name in self.axes:
                rank = step_rank(name)
                axis = self.axes.setdefault(name, StepName(name, _UNNAMED if rank is None else rank))
                before = axis.falls
                grew = axis.see(value, pairs, known)
                grown += [axis] if grew else []
                fallen += [axis] if axis.falls > before else []
                axis.above &= name not in pairs.steps
                axis.certain = axis.certain or (name in pairs.steps and _proves(name, pairs, known))
        for axis in fallen:  # a batch that starts again with the next epoch
            coarser = [other for other in grown if other.rank > axis.rank or axis.step_name == BAR]
            axis.restarts += 2 * bool(coarser)
            for other in coarser:
                other.resets += 1
        if known == 2 or not block:  # else a block that is printed again and again may be a configuration
            self._count_line(pairs, known)
        if len(self._pending) > _MOST_PENDING:
            self._choose()
            if self.axis is None:
                del self._pending[: _MOST_PENDING // 2]
            else:
                self._early = self._resolved()

    def _count_line(self, pairs: ParsedLine, known: int) -> None:
        """Lines that are counted have the same names each time; those of Hugging Face have an epoch between steps."""
        hugging = pairs.dump and "loss" in pairs.metrics and "epoch" in [*pairs.metrics, *pairs.steps]
        name = "{}" if hugging else " ".join(pairs.metrics)
        if (pairs.steps or self._headings) and not hugging:
            return
        if (known and len(self.axes) < _MOST_AXES) or name in self.axes:
            axis = self.axes.setdefault(name, StepName(name, _COUNTED))
            axis.see(axis.count, pairs, known)
            axis.certain = hugging

    def _best(self) -> StepName | None:
        good = [one for one in self.axes.values() if one.qualifies and one.step_name not in self._fractional]
        return min(good, key=lambda one: one.order, default=None)

    def _resolved(self) -> list[FoundLine]:
        """The pending lines with their steps."""
        assert self.axis is not None
        found, self._early = self._early, []
        for seen in self._pending:
            one = self._placed(seen, self.axis)
            if one is None:
                self._tail = [*self._tail[-20:], seen]
                continue
            if one.main:
                self._tail = []
            found.append(one)
        self._pending = []
        return found

    def _last_words(self, axis: StepName) -> Iterator[FoundLine]:
        """What a script prints once, after its last step: `final_mse: 0.003`."""
        for seen in self._tail if self._step is not None else ():
            metrics = {k: value for k, value in seen.metrics.items() if known_metric(k) and k not in axis.names}
            if metrics and seen.bare and not seen.steps:
                self._once.update(metrics)
                yield FoundLine(self._step or 0, metrics, seen, counted=axis.rank == _COUNTED, main=False)

    def _placed(self, parsed: ParsedLine, axis: StepName) -> FoundLine | None:
        counted = axis.rank == _COUNTED
        metrics = parsed.metrics
        own = self._own(parsed, axis)
        if own is not None:
            if self._step is not None and own > self._step:
                self._gap = own - self._step
            self._step = own
            if axis.rank == _UNNAMED:
                metrics = {name: value for name, value in metrics.items() if name != axis.step_name}
            metrics = as_declared(metrics, self.names, parsed.heading)
            return FoundLine(own, metrics, parsed, counted=counted, main=True) if metrics else None
        if parsed.counters.keys() == {NUMBER}:
            return None
        named = plausible(metrics, self.names) == 2
        first = self._step is None and axis.first in parsed.counters.values() and parsed.bare
        early = self._step is None and not parsed.dump and not first  # settings, printed before the first step
        proven = first or any(self.axes[name].qualifies for name in parsed.counters if name in self.axes)
        if not proven:
            metrics = {
                name: value
                for name, value in metrics.items()
                if name not in axis.names or (same_name(name) in self.names and not early) or parsed.heading
            }
        held_out = parsed.heading or any(map(is_validation, metrics))
        validates = isinstance(parsed, TableRow) or held_out
        if not metrics or not (named or proven or (validates and not early)):
            return None
        here = self._step or 0
        own_steps = {name: n for name, n in parsed.counters.items() if not name.startswith(("num_", "n_"))}  # totals
        ranks = {name: _fineness(name) for name in own_steps}
        finest = {value for name, value in own_steps.items() if ranks[name] == min(ranks.values())}
        if self._step is None and len(finest) > 1 and not named:  # which of them counts is not known yet
            return None
        fits = [value for value in sorted(finest) if self._step is None or here <= value <= here + 2 * self._gap]
        metrics = as_declared(metrics, self.names, parsed.heading)
        return FoundLine(fits[0] if fits and not counted else here, metrics, parsed, counted=counted, main=False)

    def _own(self, parsed: ParsedLine, axis: StepName) -> int | None:
        """The line's step on the axis; None if it is not on it."""
        if axis.rank != _COUNTED:
            return parsed.counters.get(axis.step_name)
        metrics = parsed.metrics
        if axis.step_name == "{}":
            if not (parsed.dump and "loss" in metrics):
                return None
        elif axis.step_name and " ".join(metrics) != axis.step_name:
            return None
        self._count += 1
        return self._count


def _with_coarser(steps: dict[str, int], above: dict[str, int]) -> dict[str, int]:
    """The steps of a line, with those of the lines above it that are coarser."""
    finest = min((_fineness(name) for name in steps if name != BAR), default=-1)
    return {**{name: n for name, n in above.items() if _fineness(name) > finest}, **steps}


def _fineness(name: str) -> int:
    rank = step_rank(name)
    return _COUNTED if rank is None else rank


def _proves(step_name: str, pairs: ParsedLine, known: int) -> bool:
    """Whether one line is enough: a whole dict with a step and a metric, or a line as verl prints it."""
    if step_name.lower() not in _USUAL_STEPS or not known:
        return False
    return pairs.dump or any(name.startswith(_VERL) for name in pairs.metrics)


def _shown(step_name: str) -> str:
    unnamed = {BAR: "a bar's n/total", LEADING: "the number at a line's start"}
    return unnamed.get(step_name, f"`{step_name}`")

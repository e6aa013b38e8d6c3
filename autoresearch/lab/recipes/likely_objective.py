"""Which of the numbers that a run printed or wrote is likely to be its objective, by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from autoresearch.core.metrics.objective import Objective, steadier, usual_direction
from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import Source


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VALIDATION, _TEST = _set_of("val valid vali validation eval evaluation dev held heldout holdout"), _set_of("test")
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
_NEVER = _set_of(
    "std stdev stddev var variance min max minimum maximum count counts num time runtime elapsed seconds sec size lr "
    "norm flops"
)


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number that a run printed or wrote, or an expression over it, with its first and its last value."""

    name: str
    first: float
    last: float
    proposed: bool = False
    file: Source | None = None  # the one that alone has it; None if the log shows it

    def __str__(self) -> str:
        """`val loss: 2.31 to 0.94 (proposed)`."""
        where = f" in {self.file.path}" if self.file else ""
        return f"{self.name}: {self.first:.6g} to {self.last:.6g}{where}{' (proposed)' if self.proposed else ''}"

    @property
    def objective(self) -> Objective | None:
        """It as an objective; None where its name does not say what is to be optimised.

        A loss or an accuracy that nobody says to be of held-out data may be that of the batch before an update.
        """
        words = _words(self)
        measured = words.intersection(*[chain(*_MEASURES)])
        says = measured and (measured <= _RETURNS or words & _HELD_OUT)
        return Objective(self.name, usual_direction(f'"{self.name}"', None)) if says else None


def with_proposal(unranked: Iterable[PrintedNumber], readings: Sequence[Reading] = ()) -> list[PrintedNumber]:
    """These with the likeliest objective first, which is proposed; a mean of its last values, if it jumps."""
    every = list(unranked)
    ordered = list(dict.fromkeys((*candidates(every), *sorted(every, key=lambda one: bool(_words(one) & _NEVER)))))
    if ordered and (mean := steadier(ordered[0].name, readings)):
        series = Objective(mean).series(readings)
        ordered.insert(0, replace(ordered[0], name=mean, first=series[0][1], last=series[-1][1]))
    return [replace(one, proposed=not n) for n, one in enumerate(ordered)]


def candidates(names: Iterable[PrintedNumber]) -> list[PrintedNumber]:
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


def _split(number: PrintedNumber) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z0-9]+", number.name.lower())) - {""}


def _words(number: PrintedNumber) -> frozenset[str]:
    words = _split(number)
    return words - {"max"} if words & {"acc", "accuracy"} else words  # the highest loss is an outlier


def _core(number: PrintedNumber) -> frozenset[str]:
    """The words that say of what a number is."""
    return _words(number) - _NO_DIFFERENCE


def _measure(number: PrintedNumber) -> int:
    """Which measure a name says, 1 for the best kind, 0 for none; the loss of a reward model is a loss."""
    words = _words(number)
    return max((n for n, measured in enumerate(_MEASURES, 1) if words & measured), default=0)


def _rank(number: PrintedNumber) -> int:
    """0 for a number that is measured on held-out data, then that of its measure; more for what nobody optimises."""
    words, measure = _words(number), _measure(number)
    if words & _NEVER or not measure:
        return len(_MEASURES) + 1
    return 0 if words & _HELD_OUT else measure


def _best(names: list[PrintedNumber]) -> list[PrintedNumber]:
    """The likeliest of the best rank."""
    ranks = {one: _rank(one) for one in names}
    best = min(ranks.values(), default=len(_MEASURES) + 1)
    return _likeliest([one for one in names if ranks[one] == best <= len(_MEASURES)])


def _likeliest(names: list[PrintedNumber]) -> list[PrintedNumber]:
    """Those that no other one is to be preferred to.

    What is measured on validation data comes before test data, a plain name (`loss`) before that of a part
    (`policy_loss`), the value before the best so far, a mean before one value, and the last of those that are the same.
    """
    fit = [one for one in names if _words(one) & _VALIDATION] or names
    cores = {one: _core(one) for one in fit}
    plain = [one for one in fit if not any(core < cores[one] for core in cores.values())]
    plain.sort(key=lambda one: (not _split(one) & _SO_FAR, bool(_split(one) & _MEANS)))
    return sorted({cores[one]: one for one in plain}.values(), key=names.index)

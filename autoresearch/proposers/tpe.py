"""Optuna's TPE by ask and tell, without a state of its own: each ask tells a new study all that the attempts say.

So a kill at any instruction loses nothing, and equal attempts propose equal ideas, before and after a restart. The
baseline, a person's ideas and a coding agent's are learnt from too, where they are points of the space.

A crash, or an idea that its curve ended early, is told PRUNED: TPE then ranks it below all that finished and
turns away from its neighbourhood. FAIL would hide it (on a landscape where half of the space breaks, twice as
many ideas crashed then); a made-up bad value would need a scale. An idea that never ran teaches nothing.

Optuna takes half a second to import. Sampler: Watanabe, "Tree-structured Parzen estimator", arXiv:2304.11127.
"""

from __future__ import annotations

import importlib.util
import math
import random
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autoresearch.core.campaign.hypothesis import BEST
from autoresearch.core.campaign.overrides import canonical, changed, fingerprint, flatten
from autoresearch.core.campaign.proposer import Attempt, config_only, points
from autoresearch.core.campaign.space import Choices, Dimension, Point, Space
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.errors import EnvironmentUnusable
from autoresearch.proposers.sweep import RandomSweep, spread

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

REASKS = 8
"""Duplicates in a row before a point is drawn at random instead."""
START_POINTS = 3
"""Ideas that cover the space evenly before TPE takes over, beside the baseline; Optuna's 10 are half of 24 ideas."""
GOOD_SHARE = 1 / 4
"""Share of the results that TPE takes for good ones. Optuna's tenth is one result up to the tenth, and with noise
often the wrong one. Both numbers were chosen on two landscapes and measured on a third, see docs/search.md."""


class Tpe(RandomSweep):
    """Proposes where good results were dense and others were not; the first few ideas cover the space evenly."""

    name = "tpe"

    def __init__(
        self,
        space: Space,
        objective: Objective,
        *,
        baseline: Mapping[str, object],
        seed: int = 0,
        parallel: int = 1,
    ) -> None:
        """Raises UsageError `bad_space` for a space of one point, EnvironmentUnusable without optuna."""
        super().__init__(space, baseline, seed)
        need_optuna()
        self._objective, self._parallel = objective, parallel

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """One of the start points, else where TPE expects the most."""
        for point in spread(self.space, self.seed, START_POINTS)[number:]:
            if fingerprint(point, self.baseline) not in known:
                return point
        with _quiet():
            return self._asked_of_optuna(number, known, attempts)

    def _asked_of_optuna(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        from optuna.trial import TrialState

        study = self.study(attempts)
        crashes = sum(attempt.status == "crash" for attempt in attempts)
        distributions = {d.key: _distribution(d) for d in self.space.free}
        for again in range(REASKS):
            seed = random.Random(f"{self.seed}:{number}:{again}").getrandbits(32)
            study.sampler = _sampler(seed, study.get_trials(deepcopy=False), crashes, self._parallel)
            trial = study.ask(distributions)
            point = {
                d.key: as_value(d, trial.params[d.key]) if d.key in trial.params else d.grid()[0]
                for d in self.space.dimensions
            }
            if fingerprint(point, self.baseline) not in known:
                return point
            study.tell(trial, state=TrialState.FAIL)
        return None

    def study(self, attempts: Sequence[Attempt]) -> Study:
        """All that can be learnt: the attempts that are points of the space, and the ideas that are on their way."""
        import optuna

        study = optuna.create_study(direction=self._objective.direction.value)
        changes, listed = points(attempts), {attempt.hypothesis.slug for attempt in attempts}
        coming = [Attempt(0, idea) for idea in self.asked.values() if idea.slug not in listed]
        for attempt in (*attempts, *coming):
            idea, own = attempt.hypothesis, changes.get(attempt.hypothesis.slug)
            if own is None and config_only(idea) and (idea.parent == BEST or attempt in coming):
                whole = flatten(idea.overrides)  # of use where it says every key of the space itself
            else:
                whole = {**flatten(self.baseline), **own} if own is not None else {}
            point = self.space.point_in(whole)
            elsewhere = changed(whole, self.baseline).keys() - {d.key for d in self.space.dimensions}
            if point is not None and not elsewhere and attempt.status != "skipped":
                study.add_trial(self._trial(attempt, point))
        return study

    def _trial(self, attempt: Attempt, point: Point) -> FrozenTrial:
        from optuna.trial import create_trial

        state, value = _outcome(attempt)
        params = {d.key: as_parameter(d, point[d.key]) for d in self.space.free}
        distributions = {d.key: _distribution(d) for d in self.space.free}
        return create_trial(state=state, value=value, params=params, distributions=distributions)


def need_optuna() -> None:
    """Refuse to go on without optuna, cheaply. Raises EnvironmentUnusable `no_optuna`."""
    if importlib.util.find_spec("optuna") is None:
        message = f"the proposer tpe needs optuna, which is not installed for {sys.executable}"
        fix = f"{sys.executable} -m pip install 'optuna>=4'"
        raise EnvironmentUnusable(message, code="no_optuna", fix=fix, hint="or search with --proposer random or grid")


def _sampler(seed: int, trials: Sequence[FrozenTrial], crashes: int, parallel: int) -> object:
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    measured = sum(trial.state == TrialState.COMPLETE for trial in trials)
    good = min(measured, math.ceil((measured + crashes) * GOOD_SHARE))  # a crash is a result, but never a good one
    return TPESampler(
        seed=seed, n_startup_trials=START_POINTS, gamma=lambda _: good, multivariate=True, constant_liar=parallel > 1
    )


def _outcome(attempt: Attempt) -> tuple[TrialState, float | None]:
    """What Optuna is told, see the module."""
    from optuna.trial import TrialState

    if not attempt.settled:
        return TrialState.RUNNING, None
    if attempt.value is None and attempt.status not in ("crash", PRUNED):
        return TrialState.FAIL, None
    measured = attempt.status not in ("crash", PRUNED) and attempt.value is not None and math.isfinite(attempt.value)
    return (TrialState.COMPLETE, attempt.value) if measured else (TrialState.PRUNED, None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna announces every study, and warns that what it has had for years is experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        yield


def _distribution(dimension: Dimension) -> BaseDistribution:
    """Optuna's name for a dimension. Ordered choices are their rank, so that neighbours are neighbours."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(dimension, Choices):
        if dimension.ordered:
            return IntDistribution(0, len(dimension.values) - 1)
        return CategoricalDistribution([canonical(value) for value in dimension.values])
    if dimension.whole:
        step = 1 if dimension.step is None else int(dimension.step)
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def _ascending(dimension: Choices) -> list[object]:
    """Ordered choices from the smallest to the largest."""
    return sorted(dimension.values, key=lambda value: float(str(value)))


def as_value(dimension: Dimension, param: object) -> object:
    """A parameter of a trial as the recipe's value."""
    if not isinstance(dimension, Choices):
        return dimension.tidy(float(str(param)))
    if dimension.ordered:
        return _ascending(dimension)[int(str(param))]
    return next(value for value in dimension.values if canonical(value) == param)


def as_parameter(dimension: Dimension, value: object) -> object:
    """A value of the recipe as a parameter of a trial."""
    if not isinstance(dimension, Choices):
        return dimension.tidy(float(str(value))) if dimension.whole or dimension.step else float(str(value))
    if dimension.ordered:
        return [canonical(v) for v in _ascending(dimension)].index(canonical(value))
    return canonical(value)

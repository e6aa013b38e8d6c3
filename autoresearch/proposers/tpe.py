"""Optuna's TPE by ask and tell, without a state of its own: each ask tells a new study all that the attempts say.

So a kill at any instruction loses nothing, and equal attempts propose equal ideas, before and after a restart. The
baseline, a person's ideas and a coding agent's are learnt from too, where they are points of the space.

A crash, or an idea that is screened, is told PRUNED: TPE then ranks it below all that finished and
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
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from autoresearch.core.campaign import overrides
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import canonical, changed, flatten
from autoresearch.core.campaign.proposer import Attempt, Proposer, ProposerInputs, points, tried
from autoresearch.core.campaign.space import MOST_GRID_POINTS, Choices, Dimension, Point
from autoresearch.core.run.ending import Verdict
from autoresearch.errors import EnvironmentUnusable

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

# Sweeps: every point of a grid in order, or points at random without repetition.
#
# Neither remembers anything but what the attempts say: after a crash the idea that was lost is proposed again.

_DRAWS = 64
"""Draws before the points that are left are listed, or, in a continuous space, before giving up."""


class Sweep(Proposer):
    """Ideas that are points of a space on top of the baseline; `choose` says which comes next."""

    name = ""

    def __init__(self, inputs: ProposerInputs) -> None:
        assert inputs.space is not None, self.name
        self.space, self.baseline, self.seed = inputs.space, inputs.baseline, inputs.seed
        self.asked: dict[str, Hypothesis] = {}  # in this life, by fingerprint

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next point that was neither attempted nor asked for; None when none is left."""
        ideas = [attempt.hypothesis for attempt in attempts]
        mine = [idea.token for idea in (*ideas, *self.asked.values()) if idea.proposer == self.name]
        number = max((int(token) for token in mine if token.isdecimal()), default=-1) + 1
        point = self.choose(number, tried(attempts, self.baseline) | self.asked.keys(), attempts)
        if point is None:
            return None
        idea = Hypothesis(
            slug=overrides.slug(point, self.baseline, {idea.slug for idea in (*ideas, *self.asked.values())}),
            sentence=overrides.sentence(point, self.baseline),
            parent=BASELINE,
            overrides=point,  # every key of the space, so that it stands alone
            proposer=self.name,
            token=str(number),
        )
        self.asked[self.mark(point)] = idea
        return idea

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """The point of the idea of this number, with no fingerprint in `known`; None if there is none."""
        raise NotImplementedError

    def mark(self, point: Point) -> str:
        """The fingerprint of a point."""
        return overrides.fingerprint(point, self.baseline)


class GridSweep(Sweep):
    """Every point of the grid once, in the order of the file."""

    name = "grid"

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """The first point of the grid that is not known."""
        return next((point for point in self.space.grid() if self.mark(point) not in known), None)


class RandomSweep(Sweep):
    """Points drawn uniformly (in the logarithm where declared); equal seeds draw equal points."""

    name = "random"

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """A random point that is not known; None if there is none, or chance finds none."""
        space, chance = self.space, random.Random(f"{self.seed}:{number}")
        for _ in range(_DRAWS):
            point = space.at([chance.random() for _ in space.dimensions])
            if self.mark(point) not in known:
                return point
        if space.size > MOST_GRID_POINTS or any(d.grid_size != d.count for d in space.dimensions):
            return None
        left = [point for point in space.grid() if self.mark(point) not in known]
        return chance.choice(left) if left else None


REASKS = 8
"""Duplicates in a row before a point is drawn at random instead."""


class Tpe(RandomSweep):
    """Proposes where good results were dense and others were not."""

    name = "tpe"

    def __init__(self, inputs: ProposerInputs) -> None:
        """Raises EnvironmentUnusable without optuna."""
        super().__init__(inputs)
        need_optuna()
        self._objective = inputs.objective

    def choose(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        """Where TPE expects the most; at random where it only repeats itself."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Optuna has had for years is experimental
            point = self._asked_of_optuna(number, known, attempts)
        return point or super().choose(number, known, attempts)

    def _asked_of_optuna(self, number: int, known: Set[str], attempts: Sequence[Attempt]) -> Point | None:
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        study = self.study(attempts)
        for again in range(REASKS):
            seed = random.Random(f"{self.seed}:{number}:{again}").getrandbits(32)
            # what runs at the same time pushes the next idea away, which is the default from Optuna 5 on
            study.sampler = TPESampler(seed=seed, constant_liar=True)
            trial = study.ask({d.key: _distribution(d) for d in self.space.free})
            params = trial.params
            point = {d.key: _value(d, params[d.key]) if d.key in params else d.grid()[0] for d in self.space.dimensions}
            if self.mark(point) not in known:
                return point
            study.tell(trial, state=TrialState.FAIL)
        return None

    def study(self, attempts: Sequence[Attempt]) -> Study:
        """All that can be learnt: the attempts that are points of the space, and the ideas that are on their way."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)  # it announces every study
        study = optuna.create_study(direction="maximize" if self._objective.better(1.0, 0.0) else "minimize")
        changes, listed = points(attempts), {attempt.hypothesis.slug for attempt in attempts}
        coming = [Attempt(0, idea) for idea in self.asked.values() if idea.slug not in listed]
        for attempt in (*attempts, *coming):
            idea, own = attempt.hypothesis, changes.get(attempt.hypothesis.slug)
            if own is None and not idea.changes_code and (idea.parent == BEST or attempt in coming):
                whole = flatten(idea.overrides)  # of use where it says every key of the space itself
            else:
                whole = {**flatten(self.baseline), **own} if own is not None else {}
            point = self.space.point_in(whole)
            elsewhere = changed(whole, self.baseline).keys() - {d.key for d in self.space.dimensions}
            if point is not None and not elsewhere and attempt.status != "skipped":
                study.add_trial(self._trial(attempt, point))
        return study

    def _trial(self, attempt: Attempt, point: Point) -> FrozenTrial:
        """What Optuna is told, see the module."""
        from optuna.trial import TrialState, create_trial

        ended_early = attempt.status in (Verdict.CRASH, Verdict.SCREENED)
        value = None if ended_early or not attempt.settled else attempt.value
        if not attempt.settled:
            state = TrialState.RUNNING
        elif value is not None and math.isfinite(value):
            state = TrialState.COMPLETE
        else:
            state = TrialState.PRUNED if ended_early or value is not None else TrialState.FAIL
        return create_trial(
            state=state,
            value=value if state == TrialState.COMPLETE else None,
            params={d.key: _parameter(d, point[d.key]) for d in self.space.free},
            distributions={d.key: _distribution(d) for d in self.space.free},
        )


def need_optuna() -> None:
    """Refuse to go on without optuna, cheaply. Raises EnvironmentUnusable `no_optuna`."""
    if importlib.util.find_spec("optuna") is None:
        message = f"the proposer tpe needs optuna, which is not installed for {sys.executable}"
        fix = f"{sys.executable} -m pip install 'optuna>=4'"
        raise EnvironmentUnusable(message, code="no_optuna", fix=fix, hint="or search with --proposer random or grid")


# A choice is a number for Optuna: the rank of an ordered one, so that neighbours are neighbours.


def _ranked(dimension: Choices) -> list[object]:
    return sorted(dimension.values, key=lambda v: float(str(v))) if dimension.ordered else list(dimension.values)


def _distribution(dimension: Dimension) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(dimension, Choices):
        count = len(dimension.values)
        return IntDistribution(0, count - 1) if dimension.ordered else CategoricalDistribution(range(count))
    if dimension.whole:
        step = 1 if dimension.step is None else int(dimension.step)
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def _value(dimension: Dimension, param: object) -> object:
    """A parameter of a trial as the recipe's value."""
    number = float(str(param))
    return _ranked(dimension)[int(number)] if isinstance(dimension, Choices) else dimension.tidy(number)


def _parameter(dimension: Dimension, value: object) -> object:
    """A value of the recipe as a parameter of a trial."""
    if isinstance(dimension, Choices):
        return [canonical(one) for one in _ranked(dimension)].index(canonical(value))
    number = float(str(value))
    return dimension.tidy(number) if dimension.whole or dimension.step else number

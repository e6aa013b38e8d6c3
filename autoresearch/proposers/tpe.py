"""Optuna's TPE by ask and tell, with a journal file that survives a kill at any instruction.

The attempts are the truth and the journal follows them: a trial that is in no attempt was lost in a crash and
is told FAIL; what was measured but never told is told; what the journal does not know (the baseline, a
person's ideas, everything if the file was lost) is added to it. Each ask seeds the sampler from the number of
trials, so that equal histories propose equal ideas before and after a restart.

A crash, or an idea that its curve ended early, is told PRUNED: TPE then ranks it below all that finished and
turns away from its neighbourhood. FAIL would hide it (on a landscape where half of the space breaks, twice as
many ideas crashed then); a made-up bad value would need a scale. An idea that never ran teaches nothing and is told
FAIL.

Optuna takes half a second to import. Sampler: Watanabe, "Tree-structured Parzen estimator",
arXiv:2304.11127; file format: optuna.storages.journal.JournalFileBackend.
"""

from __future__ import annotations

import fcntl
import importlib.util
import math
import os
import random
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.campaign.attempted import config_only, points, tried
from autoresearch.core.campaign.hypothesis import BEST, Hypothesis
from autoresearch.core.campaign.overrides import canonical, changed, fingerprint, flatten
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.space import Choices, Dimension, Point, Space, need_search
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.errors import EnvironmentUnusable
from autoresearch.proposers.sweep import hypothesis, slugs, spread, untried

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

JOURNAL = "optuna.journal"
REASKS = 8
"""Duplicates in a row before a point is drawn at random instead."""
START_POINTS = 3
"""Ideas that cover the space evenly before TPE takes over, beside the baseline; Optuna's 10 are half of 24 ideas."""
GOOD_SHARE = 1 / 4
"""Share of the results that TPE takes for good ones. Optuna's tenth is one result up to the tenth, and with noise
often the wrong one. Both numbers were chosen on two landscapes and measured on a third, see docs/search.md."""

_SLUG = "slug"  # user attribute of a trial that was not asked for here: the attempt that it stands for


class Tpe:
    """Proposes where good results were dense and others were not; the first few ideas cover the space evenly."""

    name = "tpe"

    def __init__(
        self,
        space: Space,
        objective: Objective,
        directory: Path,
        *,
        baseline: Mapping[str, object],
        seed: int = 0,
        parallel: int = 1,
    ) -> None:
        """Nothing is written before the first ask.

        Raises UsageError `bad_space` for a space of one point, EnvironmentUnusable without optuna.
        """
        need_search(space)
        need_optuna()
        self._space, self._objective, self._baseline = space, objective, baseline
        self._journal, self._seed, self._parallel = directory / JOURNAL, seed, parallel
        self._study: Study | None = None
        self._asked: dict[str, str] = {}  # in this life: fingerprint -> slug
        self._absorbed: set[str] = set()
        self._met = False  # whether this life has seen the attempts

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea that equals none before it; None where nothing untried is found."""
        with _quiet():
            study = self._opened()
            self._catch_up(study, attempts)
            known = tried(attempts, self._baseline) | self._asked.keys()
            crashes = sum(attempt.status == "crash" for attempt in attempts)
            asked = self._begin(study, known) or self._ask_new(study, known, crashes) or self._draw_new(study, known)
        if asked is None:
            return None
        number, point = asked
        idea = hypothesis(self.name, str(number), point, self._baseline, slugs(attempts, self._asked.values()))
        self._asked[fingerprint(point, self._baseline)] = idea.slug
        return idea

    def tell(self, attempt: Attempt) -> None:
        """Teach the sampler what became of an idea of its own; others are learnt from at the next ask."""
        with _quiet():
            study = self._opened()
            trial = self._trial_of(attempt, _trials(study))
            if trial is not None:
                _settle(study, trial, attempt)

    def close(self) -> None:
        """The journal is open only while it is read or written."""
        self._study = None

    # --- asking ---

    def _begin(self, study: Study, known: set[str]) -> tuple[int, Point] | None:
        """One of the first few ideas, which cover the space evenly."""
        asked = sum(_SLUG not in trial.user_attrs for trial in _trials(study))
        for point in spread(self._space, self._seed, START_POINTS)[asked:]:
            if fingerprint(point, self._baseline) not in known:
                return self._add(study, point)
        return None

    def _ask_new(self, study: Study, known: set[str], crashes: int) -> tuple[int, Point] | None:
        from optuna.trial import TrialState

        distributions = {d.key: _distribution(d) for d in self._space.free}
        for _ in range(REASKS):
            study.sampler = _sampler(self._seed, _trials(study), crashes, self._parallel)
            trial = study.ask(distributions)
            point = self._point(trial.params)
            if fingerprint(point, self._baseline) not in known:
                return trial.number, point
            study.tell(trial, state=TrialState.FAIL)
        return None

    def _draw_new(self, study: Study, known: set[str]) -> tuple[int, Point] | None:
        point = untried(self._space, self._baseline, known, f"{self._seed}:{len(_trials(study))}")
        return None if point is None else self._add(study, point)

    def _add(self, study: Study, point: Point) -> tuple[int, Point]:
        """A trial that Optuna did not choose, under way like one of its own."""
        from optuna.trial import TrialState, create_trial

        params, distributions = self._as_trial(point)
        study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=distributions))
        return len(_trials(study)) - 1, point

    def _point(self, params: Mapping[str, object]) -> Point:
        return {
            d.key: as_value(d, params[d.key]) if d.key in params else d.grid()[0] for d in self._space.dimensions
        }

    def _as_trial(self, point: Point) -> tuple[dict[str, object], dict[str, BaseDistribution]]:
        params = {d.key: as_parameter(d, point[d.key]) for d in self._space.free}
        return params, {d.key: _distribution(d) for d in self._space.free}

    # --- following the attempts ---

    def _catch_up(self, study: Study, attempts: Sequence[Attempt]) -> None:
        from optuna.trial import TrialState

        trials = _trials(study)
        self._absorbed |= {str(t.user_attrs[_SLUG]) for t in trials if _SLUG in t.user_attrs}
        ours: set[int] = set()
        changes = points(attempts)
        for attempt in attempts:
            trial = self._trial_of(attempt, trials)
            if trial is not None:
                ours.add(trial.number)
                _settle(study, trial, attempt)
            elif attempt.settled and attempt.hypothesis.slug not in self._absorbed:
                self._absorb(study, attempt, changes.get(attempt.hypothesis.slug))
        if not self._met:
            for trial in trials:
                if trial.state == TrialState.RUNNING and trial.number not in ours:
                    study.tell(trial.number, state=TrialState.FAIL)
        self._met = True

    def _trial_of(self, attempt: Attempt, trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
        """The trial that was asked for as this attempt; None where the journal has forgotten it."""
        token = attempt.hypothesis.token
        if attempt.hypothesis.proposer != self.name or not token.isdecimal() or int(token) >= len(trials):
            return None
        trial = trials[int(token)]
        if not trial.params.keys() >= {d.key for d in self._space.free}:
            return None
        same = fingerprint(self._point(trial.params)) == fingerprint(attempt.hypothesis.overrides)
        return trial if same and _SLUG not in trial.user_attrs else None

    def _absorb(self, study: Study, attempt: Attempt, changes: Mapping[str, object] | None) -> None:
        """Learn from an attempt that was not asked for here, where it is a point of the space and nothing more."""
        from optuna.trial import TrialState, create_trial

        idea = attempt.hypothesis
        if changes is None and config_only(idea) and idea.parent == BEST:
            whole = flatten(idea.overrides)  # of use where it says every key of the space itself
        else:
            whole = {**flatten(self._baseline), **changes} if changes is not None else {}
        point = self._space.point_in(whole)
        elsewhere = changed(whole, self._baseline).keys() - {d.key for d in self._space.dimensions}
        state, value = _outcome(attempt)
        if point is None or elsewhere or state == TrialState.FAIL:
            return
        params, distributions = self._as_trial(point)
        more: dict[str, Any] = {"params": params, "distributions": distributions, "user_attrs": {_SLUG: idea.slug}}
        study.add_trial(create_trial(state=state, value=value, **more))
        self._absorbed.add(idea.slug)

    # --- the journal ---

    def _opened(self) -> Study:
        if self._study is None:
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            mend(self._journal)
            try:
                self._study = self._load()
            except (ValueError, KeyError, TypeError, IndexError):  # a line in the middle is damaged
                self._journal.replace(free_name(self._journal))
                self._study = self._load()
        return self._study

    def _load(self) -> Study:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        backend = JournalFileBackend(str(self._journal), lock_obj=KernelLock(self._journal))  # type: ignore[arg-type]
        declared = "\n".join(f"{d.key}: {_distribution(d)!r}" for d in self._space.free)
        return optuna.create_study(
            storage=JournalStorage(backend),
            study_name=f"space-{fingerprint({'space': declared})}",  # another space is another study
            direction=self._objective.direction.value,
            load_if_exists=True,
        )


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
        seed=random.Random(f"{seed}:{len(trials)}").getrandbits(32),
        n_startup_trials=START_POINTS,
        gamma=lambda _: good,
        multivariate=True,
        constant_liar=parallel > 1,
    )


def _trials(study: Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False)


def _settle(study: Study, trial: FrozenTrial, attempt: Attempt) -> None:
    from optuna.trial import TrialState

    if attempt.settled and trial.state == TrialState.RUNNING:
        state, value = _outcome(attempt)
        study.tell(trial.number, value, state=state, skip_if_finished=True)


def _outcome(attempt: Attempt) -> tuple[TrialState, float | None]:
    """What Optuna is told, see the module."""
    from optuna.trial import TrialState

    if attempt.status in ("crash", PRUNED):
        return TrialState.PRUNED, None
    if attempt.status == "skipped" or attempt.value is None:
        return TrialState.FAIL, None
    return (TrialState.COMPLETE, attempt.value) if math.isfinite(attempt.value) else (TrialState.PRUNED, None)


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


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna announces every study, and warns that what it has had for years is experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        yield


def ascending(dimension: Choices) -> list[object]:
    """Ordered choices from the smallest to the largest."""
    return sorted(dimension.values, key=lambda value: float(str(value)))


def as_value(dimension: Dimension, param: object) -> object:
    """A parameter of a trial as the recipe's value."""
    if not isinstance(dimension, Choices):
        return dimension.tidy(float(str(param)))
    if dimension.ordered:
        return ascending(dimension)[int(str(param))]
    return next(value for value in dimension.values if canonical(value) == param)


def as_parameter(dimension: Dimension, value: object) -> object:
    """A value of the recipe as a parameter of a trial."""
    if not isinstance(dimension, Choices):
        return dimension.tidy(float(str(value))) if dimension.whole or dimension.step else float(str(value))
    if dimension.ordered:
        return [canonical(v) for v in ascending(dimension)].index(canonical(value))
    return canonical(value)


class KernelLock:
    """Optuna's lock on its journal, freed by the kernel on any death: its own ones make a restart wait 30 s."""

    def __init__(self, path: Path) -> None:
        self._path, self._held = path, -1

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._held = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Give it back."""
        os.close(self._held)


def mend(journal: Path) -> None:
    """Set a torn last line aside: Optuna would write on behind it, and never read the file again."""
    if not journal.exists():
        return
    data = journal.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        free_name(journal).write_bytes(data[whole:])
        os.truncate(journal, whole)


def free_name(journal: Path) -> Path:
    """Where what is damaged may go."""
    number = 1
    while (found := journal.with_name(f"{journal.name}.damaged-{number}")).exists():
        number += 1
    return found

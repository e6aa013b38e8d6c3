"""Simulated campaigns, driven by the product's own functions: its state, its scheduler, its decisions, its rounds.

Nothing is trained: a run of an idea gives a number that is drawn from what the world says of it. All else is what a
controller does: `next_request` says which run comes next, `judgement.decision_of` what its row says,
`confirmation_rounds` what is put to the proof and what comes of it. A standard deviation is that of a baseline's run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autoresearch.core.campaign.claim import CLAIMS, Claim
from autoresearch.core.campaign.fold import Fold
from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.judgement import decision_of, usual_sd
from autoresearch.core.campaign.spec import Rules
from autoresearch.core.campaign.state import Idea
from autoresearch.core.controller import confirmation_rounds, runs_and_retries
from autoresearch.core.controller.actions import Note
from autoresearch.core.controller.next_actions import next_request
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.confirmation import confirm, design
from autoresearch.core.statistics.noise import collapsed
from autoresearch.core.statistics.seeding import SeededRun
from tests.specs import campaign_spec, events

COLLAPSED = -6.0
CURVE, JITTER = 12, 0.3  # values of a curve, and the share of chance in a copy's last one
SAME_IDEAS = 10_000_000
ACCURACY_SD = math.sqrt(0.96 * 0.04 / 200)
SPEC = campaign_spec(
    name="simulated",
    directory="x",
    objective=Objective("reward", Direction.MAXIMIZE),
    rules=Rules(count=25),
    replicates=5,
)


@dataclass(frozen=True)
class World:
    """What ideas and runs are like."""

    ideas: int = 24
    share: float = 0.1  # of the ideas, that are truly better than what they were built on
    effect: float = 2.0  # by how much, in sd
    noise: str = "normal"  # of NOISES, `correlated` (AR(1) of 0.7), `collapsing` (15 % do), `accuracy`, `rounded`
    spread: float = 1.0  # sd of a run of an idea; the baseline's is 1
    drift: float = 0.0  # by how much every result has changed after 40 runs
    diverging: float = 0.0  # share of an idea's runs, the worst ones, that yield no number; never the baseline's
    failing: float = 0.0  # share of all runs that yield no number by their own fault
    lost: float = 0.0  # share of all runs that the machine ends
    common: float = 0.0  # share of the variance that a seed has in common for all ideas, as an order of the data
    seeding: str = ""  # constant: every run of an idea is a copy but for jitter; fresh: nothing seeds; "": seeds work
    apart: bool = False  # every idea is built on the baseline, whatever is kept
    minimise: bool = False
    baseline: int = 5


def _t3(rng: random.Random) -> float:
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2.0))  # variance 3, and scaled to 1 by sqrt(3) * sqrt(3)


NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: rng.gauss(0, 1),
    "t3": _t3,
    "skewed up": lambda rng: rng.expovariate(1) - 1,
    "skewed down": lambda rng: 1 - rng.expovariate(1),
}


@dataclass
class Runs:
    """Draws the results of runs, one after the other."""

    world: World
    rng: random.Random
    count: int = 0
    last: float = 0.0  # of a correlated noise
    luck: dict[int, float] = field(default_factory=dict)  # of each seed

    def one(self, level: float, *, baseline: bool = False, seed: int = 0) -> float | None:
        """The result of a run; None if it yields no number."""
        world, rng = self.world, self.rng
        self.count += 1
        if world.noise == "collapsing" and rng.random() < 0.15:
            return rng.gauss(COLLAPSED, 0.5)  # at the bottom, wherever it would have been
        if world.noise == "accuracy":  # on 200 questions, 96 % of which the baseline gets right
            right = sum(rng.random() < min(1.0, 0.96 + ACCURACY_SD * level) for _ in range(200))
            return (right / 200 - 0.96) / ACCURACY_SD
        if world.noise == "correlated":
            self.last = 0.7 * self.last + math.sqrt(1 - 0.49) * rng.gauss(0, 1)
            z = self.last
        else:
            z = NOISES.get(world.noise, NOISES["normal"])(rng)
        if world.common:
            luck = self.luck.setdefault(seed, rng.gauss(0, 1))
            z = math.sqrt(world.common) * luck + math.sqrt(1 - world.common) * z
        if not baseline and world.diverging and _share_below(z) < world.diverging:
            return None
        if world.failing and rng.random() < world.failing:
            return None
        spread = 1.0 if baseline else world.spread
        value = level + spread * z + world.drift * self.count / 40
        return float(round(value)) if world.noise == "rounded" else value


def _share_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


@dataclass
class Outcome:
    """What one simulated campaign came to."""

    runs: int = 0  # of the search
    fresh: int = 0  # of confirmations
    rounds: int = 0
    true: int = 0  # ideas kept that are better than what they replaced
    false: int = 0  # ideas kept that are not
    best: float = 0.0  # true level of the last incumbent of the search
    claimed: list[float] = field(default_factory=list)  # true levels of what is confirmed
    tested: list[float] = field(default_factory=list)  # true levels of what was put to the proof
    reopened: int = 0  # discarded ideas that were run again later
    covered: list[bool] = field(default_factory=list)  # whether the intervals hold the true gain
    excess: list[float] = field(default_factory=list)  # gain of a confirmed idea less its true one
    several: int = 0  # ideas with two runs or more, in the search
    fallen: int = 0  # those of which some run is called collapsed

    @property
    def false_claim(self) -> bool:
        """Whether something is claimed that is not so."""
        return any(level <= 0 for level in self.claimed)


class Simulation:
    """One campaign."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        self.effects = effects_of(world, seed)
        self.draw = Runs(world, random.Random(f"runs {seed}"))
        self.machine = random.Random(f"machine {seed}")
        objective = Objective("reward", Direction.MINIMIZE if world.minimise else Direction.MAXIMIZE)
        rules = Rules(count=world.ideas + 1)
        spec = replace(SPEC, rules=rules, replicates=world.baseline, objective=objective)
        self.fold = Fold(spec)
        self.state = self.fold.state
        self.levels: dict[int, float] = {}
        self.outcome = Outcome()
        self.clock = 0.0
        self.curves: dict[str, SeededRun] = {}  # by run; only where the seed check has something to find out
        self._finals: dict[int, float] = {}  # of each idea, when its last run of the search ended

    def run(self) -> Outcome:
        """The whole campaign, and the runs that are called collapsed at its end."""
        self.play()
        sd = usual_sd(self.state)
        several = [idea.values for idea in self.state.ideas if len(idea.values) > 1]
        self.outcome.several = len(several)
        self.outcome.fallen = sum(bool(collapsed(self.state.spec.objective, values, sd)) for values in several)
        return self.outcome

    def play(self) -> None:
        """Until there is nothing left to do."""
        self.note("idea", index=1, hypothesis=Hypothesis(BASELINE, "nothing").to_json(), commit="c")
        self.levels[1] = 0.0
        while True:
            if self.state.seed_check is None and len(self.state.baseline.judged if self.state.baseline else ()) >= 3:
                self.checked()
            request = next_request(self.state)
            if request is not None:
                self.make(request)
            elif self.state.open_round:
                self.judge_round()
            elif runs_and_retries.baseline_failed(self.state):
                return  # the campaign would pause
            elif self.state.attempted <= self.world.ideas:  # the baseline is one
                self.new_idea()
            elif not self.begin_round():
                return

    def note(self, do: str, **fields: object) -> None:
        self.clock += 1
        self.fold.add([{"t": self.clock, "do": do, **fields}])

    def checked(self) -> None:
        """The seed has an effect, and no run is a copy: as on GPUs, equal seeds do not give equal numbers.

        Unless the world says how its runs are seeded: then the check is the product's own.
        """
        if self.world.seeding:
            for action in confirmation_rounds.check_seeds(self.state, self.curves):
                if isinstance(action, Note):
                    self.note(action.do, **action.fields)
            return
        self.note("seed_check", seen=True, reason="", by="", runs=3, values=9, exact=False, copies=[])

    def new_idea(self) -> None:
        index, best = len(self.state.ideas) + 1, self.state.best
        assert best is not None
        parent = self.state.baseline if self.world.apart else best
        assert parent is not None
        self.levels[index] = self.levels[parent.index] + self.effects[index - 2]
        hypothesis = Hypothesis(f"idea-{index}", "something", parent=parent.slug)
        fields = {"parent": parent.slug, "commit": "c"}
        self.note("idea", index=index, hypothesis=hypothesis.to_json(), **fields)

    def make(self, request: RunRequest) -> None:
        """One run, from its preparation to its row."""
        idea, world = request.idea, self.world
        ongoing = self.state.open_round
        run = f"{idea.index}-{len(idea.runs) + 1}"
        fields = {"index": idea.index, "run": run, "run_dir": "", "replicate": request.replicate, "why": request.why}
        if request.why == "retest" and idea.index in self._finals and self._finals[idea.index] < self.clock:
            self.outcome.reopened += 1
        number = ongoing.number if ongoing and request.why == "confirm" else 0
        seed = runs_and_retries.seed_of(request, 0) if world.seeding else request.replicate
        self.note("prepared", **fields, seed=seed, round=number)
        self.note("started", run=run)
        self.outcome.fresh += request.why == "confirm"
        self.outcome.runs += request.why != "confirm"
        if world.lost and self.machine.random() < world.lost:
            self.row(idea, run, request, None, "crash", failure="node_failed")
            return
        luck = request.replicate + (runs_and_retries.FRESH_SEEDS if request.why == "confirm" else 0)
        value = self.draw.one(self.levels[idea.index], baseline=idea.index == 1, seed=luck)
        if world.seeding and value is not None:
            value = self.drawn(idea, run, seed, value)
        if value is not None and world.minimise:
            value = -value
        if request.why == "confirm":
            self.row(idea, run, request, value, "crash" if value is None else idea.status or "discard")
            return
        before = self.state.best
        decision = decision_of(self.state, idea, [*idea.past_values, value])
        kept = idea.status == "keep"
        standing = "pending" if decision.retest else decision.status.value
        self.row(idea, run, request, value, decision.status.value, standing=standing)
        searching = not self.state.rounds  # what is kept after a round replaces what was demoted
        if decision.status == "keep" and not kept and searching and idea.index > 1 and before:
            rival = self.levels[before.index]
            self.outcome.true += self.levels[idea.index] > rival
            self.outcome.false += self.levels[idea.index] <= rival
        if not decision.retest:
            self._finals[idea.index] = self.clock

    def drawn(self, idea: Idea, run: str, seed: int, value: float) -> float:
        """The last value of a curve of the run, by its world's seeding; at first, kernels change a copy little."""
        level = self.levels[idea.index]
        fate, own = random.Random(f"{self.seed} {idea.index}"), random.Random(f"{self.seed} {run}")
        series = []
        for step in range(CURVE):
            share = 1.0 if self.world.seeding == "fresh" else JITTER * 10.0 ** (step / 2 - CURVE / 2)
            series.append((step, level + (1 - share) * fate.gauss(0, 1) + share * own.gauss(0, 1)))
        if self.world.seeding == "fresh":
            series[-1] = CURVE, value
        self.curves[run] = SeededRun(seed, tuple(series))
        return series[-1][1]

    def row(self, idea: Idea, run: str, request: RunRequest, value: float | None, status: str, **more: str) -> None:
        self.clock += 1
        ending = "lost" if "failure" in more else "crashed" if value is None else "finished"
        fields = {"elapsed_min": 1.0, "ending": ending, "ended": self.clock, **more}
        row = LedgerRow(index=idea.index, metric_name="reward", metric_value=value, status=status, run_id=run, **fields)
        self.fold.add(events([], [replace(row, replicate=request.replicate)]))

    def begin_round(self) -> bool:
        """Put the best idea to the proof; False if there is nothing left to do."""
        if not self.state.rounds and (best := self.state.best):
            self.outcome.best = self.levels[best.index]
        if confirmation_rounds.rounds_left(self.state) <= 0:
            return False
        planned, _ = confirmation_rounds.plan_round(self.state)
        if planned is None:
            return False
        self.outcome.rounds += 1
        self.outcome.tested += [self.levels[index] for index in planned.candidates]
        fields = {"round": planned.number, "candidates": list(planned.candidates), "sizes": list(planned.sizes)}
        self.note("confirming", **fields)
        return True

    def judge_round(self) -> None:
        """The verdicts of the open round."""
        for action in confirmation_rounds.judge_round(self.state, self.curves):
            if isinstance(action, Note):
                self.note(action.do, **action.fields)
                if action.do in CLAIMS:
                    self.weigh(action)

    def weigh(self, verdict: Note) -> None:
        """Compare a verdict with the truth."""
        gain, low, high = (verdict.fields.get(name) for name in ("gain", "gain_low", "gain_high"))
        level = self.levels[verdict.fields["index"]]
        if low is not None:
            self.outcome.covered.append(low <= level <= high)
        if verdict.do == "confirmed":
            self.outcome.claimed.append(level)
            self.outcome.excess.append(gain - level)


@dataclass(frozen=True)
class Proof:
    """One confirmation of an idea whose true gain is known, in sd."""

    claimed: bool
    runs: int  # fresh ones of both sides
    delta: float  # difference of the means
    gain: float  # adjusted for the looks
    covered: bool  # whether the interval holds the true gain


def proof(effect: float, seed: int, budget: int = SPEC.rules.confirm_runs) -> Proof:
    """Put an idea to the proof, with so many fresh runs at most."""
    rng, looks = random.Random(f"proof {seed}"), design(budget=budget)
    assert looks is not None
    sides = [[rng.gauss(level, 1) for _ in range(looks.sizes[-1])] for level in (effect, 0.0)]
    found = confirm(SPEC.objective, looks, sides[0], sides[1])
    assert found is not None and found.value is not None and found.baseline is not None
    assert found.gain is not None and found.gain_low is not None and found.gain_high is not None
    runs, covered = (found.n or 0) + (found.n_baseline or 0), found.gain_low <= effect <= found.gain_high
    return Proof(found.claim == Claim.CONFIRMED, runs, found.value - found.baseline, found.gain, covered)


def effects_of(world: World, seed: int) -> list[float]:
    """What each idea adds to the level of its parent: the same for every rule, and for seeds SAME_IDEAS apart."""
    rng = random.Random(f"ideas {seed % SAME_IDEAS}")
    return [world.effect if rng.random() < world.share else 0.0 for _ in range(world.ideas)]


def campaign(world: World, seed: int) -> Outcome:
    """One campaign as the product runs it."""
    return Simulation(world, seed).run()


def greedy(world: World, seed: int) -> Outcome:
    """The ratchet of single runs, on the same ideas: whatever beats the best run so far is kept; nothing is proved."""
    draw, found = Runs(world, random.Random(f"greedy {seed}")), Outcome(runs=1)
    best = draw.one(0.0, baseline=True)
    for effect in effects_of(world, seed):
        level = effect if world.apart else found.best + effect
        value = draw.one(level)
        found.runs += 1
        if value is not None and (best is None or value > best):
            best = value
            found.true += level > found.best
            found.false += level <= found.best
            found.best = level
    return found

"""StopRules: pure functions that tell from the attempts and the clock whether a rule is met, or how much is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autoresearch.core.campaign.spec import Rules
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.text.numbers import number, span


@dataclass(frozen=True, slots=True)
class StopFacts:
    """The measurements that the rules are checked against."""

    attempted: int  # ideas, whatever their outcome
    best: float | None  # the search mean of the best kept idea
    gpu_hours: float
    now: float  # wall clock
    run_s: float  # expected duration of one run; 0 if unknown
    reserve_s: float = 0.0  # reserved for the final confirmation
    run_gpu_hours: float = 0.0
    reserve_gpu_hours: float = 0.0  # reserved for the final confirmation
    usd: float = 0.0  # cost of the coding agent, as far as it reports it
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stand:
    """The result of checking all stop rules."""

    met: str  # the first rule that is met, in words; "" if none is
    remaining: str  # in words: "17/24 attempted, 6h12m remaining"
    remaining_ideas: int | None  # None: no `count` rule
    remaining_s: float | None  # None: no deadline
    runs_go_on: bool = True  # whether the rules that are met forbid ideas alone: their count, what they cost

    @property
    def sentence(self) -> str:
        """The result as a sentence for the user."""
        return f"stop condition met: {self.met}" if self.met else self.remaining

    @property
    def deadline_words(self) -> str:
        """How far it is to the deadline; "" without one."""
        return "" if self.remaining_s is None else f"deadline in {span(self.remaining_s)}"

    @property
    def beside_count(self) -> str:
        """The same for who is told the number of attempted ideas already; "" if nothing else is left to say."""
        before, attempted, more = (self.met or self.remaining).partition(" attempted")
        return more.removeprefix(", ") if attempted else before


def stand(rules: Rules, facts: StopFacts, objective: Objective) -> Stand:
    """Check every rule; `met` names the first one that is met."""
    left_s = None if rules.deadline is None else rules.deadline - facts.now
    left_n = None if rules.count is None else max(0, rules.count - facts.attempted)
    met = list(_met(rules, facts, objective, left_s))
    unlimited = replace(rules, count=None, budget_usd=None, budget_tokens=None)
    runs_go_on = not any(_met(unlimited, facts, objective, left_s))
    return Stand(met[0] if met else "", _remaining(rules, facts, left_s), left_n, left_s, runs_go_on)


def _met(rules: Rules, facts: StopFacts, objective: Objective, left_s: float | None) -> Iterator[str]:
    """The rules that are met, in words."""
    best = facts.best
    if rules.count is not None and facts.attempted >= rules.count:
        yield f"{facts.attempted}/{rules.count} ideas attempted"
    if rules.target is not None and best is not None and not objective.better(rules.target, best):
        yield f"{objective.metric} = {best:.6g} (search mean) reaches the target {rules.target:g}"
    if left_s is not None and left_s <= 0:
        yield "the deadline has passed"
    elif left_s is not None and left_s < facts.run_s + facts.reserve_s:
        also = f" and {span(facts.reserve_s)} for the confirmation" if facts.reserve_s else ""
        yield f"{span(left_s)} are left, too short for another run of {span(facts.run_s)}{also}"
    if rules.budget_gpu_hours is not None:
        left = rules.budget_gpu_hours - facts.gpu_hours
        if left <= 0 or left < facts.run_gpu_hours + facts.reserve_gpu_hours:
            also = f", {left:.2f} are left for the confirmation" if left > 0 and facts.reserve_gpu_hours else ""
            yield f"{facts.gpu_hours:.2f} of {rules.budget_gpu_hours:g} GPU hours are spent{also}"
    if rules.budget_usd is not None and facts.usd >= rules.budget_usd:
        yield f"{facts.usd:.2f} of {rules.budget_usd:g} USD are spent on the researcher"
    if rules.budget_tokens is not None and facts.tokens >= rules.budget_tokens:
        yield f"{facts.tokens:,} of {rules.budget_tokens:,} tokens are spent on the researcher"


def _remaining(rules: Rules, facts: StopFacts, left_s: float | None) -> str:
    words = [f"{facts.attempted}/{rules.count} attempted" if rules.count else f"{facts.attempted} attempted"]
    if left_s is not None:
        words.append(f"{span(max(0.0, left_s))} remaining")
    if rules.budget_gpu_hours is not None:
        words.append(f"{facts.gpu_hours:.2f}/{rules.budget_gpu_hours:g} GPU hours")
    if rules.budget_usd is not None:
        words.append(f"{facts.usd:.2f}/{rules.budget_usd:g} USD")
    if rules.budget_tokens is not None:
        words.append(f"{facts.tokens:,}/{rules.budget_tokens:,} tokens")
    if rules.target is not None:
        best = "nothing kept" if facts.best is None else f"best {number(facts.best)} (search mean)"
        words.append(f"{best}, target {rules.target:g}")
    return ", ".join(words)

"""Proposes half of the best learning rate so far."""

from __future__ import annotations

from collections.abc import Sequence

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt, Proposer, ProposerInputs


class Halves(Proposer):
    name = "halves"

    def __init__(self, inputs: ProposerInputs) -> None:
        self.start = float(str(inputs.baseline.get("lr", 1.0)))

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        number = sum(attempt.hypothesis.proposer == self.name for attempt in attempts) + 1
        lr = self.start / 2**number
        return Hypothesis(
            slug=f"lr-{number}",
            sentence=f"A learning rate of {lr:g} is better.",
            parent=BASELINE,
            overrides={"lr": lr},
            proposer=self.name,
            token=str(number),
        )

"""Proposer: the interface of all sources of hypotheses.

Attempted ideas as points of the recipe space: which ideas are equal, and what a search can learn from.

Only ideas that change nothing but the recipe are points. An idea built on another one includes the changes of
both; one built on `best` is a point only once the campaign has recorded which idea that was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import fingerprint, flatten
from autoresearch.core.campaign.space import Space
from autoresearch.core.metrics.objective import Objective

ReadYaml = Callable[[bytes, str], object]
"""Bytes and the file's name to plain data; raises AutoresearchError where it is no YAML."""
Lines = Callable[[bytes], Mapping[tuple[str | int, ...], int]]
"""Bytes to the line of each key and item, by its path from the top."""


@dataclass(frozen=True, slots=True)
class ProposerInputs:
    """All that a proposer may ask of a campaign; what a proposer does not need may be left out."""

    objective: Objective
    read_yaml: ReadYaml
    lines: Lines = lambda data: {}
    space: Space | None = None
    queue: str = ""  # a folder of blueprints or a YAML list
    baseline: Mapping[str, object] = field(default_factory=dict)  # the recipe's own values, nested or dotted
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempted idea of a campaign and its results so far."""

    index: int  # the baseline is 1
    hypothesis: Hypothesis
    # a verdict; "" while its first run is under way; "skipped" if it never ran; "screened" if it was ended early
    status: str = ""
    value: float | None = None  # mean of the objective over its runs; None if no run measured it
    runs: int = 0  # finished runs

    @property
    def settled(self) -> bool:
        """Whether its result is final enough to be learnt from."""
        return self.status != ""


class Proposer(Protocol):
    """One source of hypotheses. Its state must survive a kill at any instruction.

    The campaign writes a hypothesis to its journal before it starts any run of it. A hypothesis that was asked for
    but is missing from `attempts` after a restart was lost in a crash; its proposer must discard it.
    """

    @property
    def name(self) -> str:
        """The proposer's name: queue, grid, random, tpe ..."""

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea, given all attempts so far (running ones have no status); None if there is none at present.

        All that it learns stands in the attempts.
        """


def points(attempts: Iterable[Attempt]) -> dict[str, dict[str, object]]:
    """slug -> all recipe changes relative to the baseline, for each attempt that is a point."""
    by_slug = {a.hypothesis.slug: a.hypothesis for a in attempts}
    found: dict[str, dict[str, object]] = {}
    for slug in by_slug:
        changes = _from_baseline(slug, by_slug)
        if changes is not None:
            found[slug] = changes
    return found


def tried(attempts: Sequence[Attempt], baseline: Mapping[str, object]) -> set[str]:
    """The fingerprints of all attempted points, the baseline's own included."""
    own = {fingerprint({}, baseline)}
    return own | {fingerprint(changes, baseline) for changes in points(attempts).values()}


def _from_baseline(slug: str, by_slug: Mapping[str, Hypothesis]) -> dict[str, object] | None:
    chain: list[Hypothesis] = []
    while slug in by_slug and by_slug[slug] not in chain:
        chain.append(by_slug[slug])
        if chain[-1].changes_code:
            return None
        if chain[-1].is_baseline or chain[-1].parent == BASELINE:
            return {k: v for step in reversed(chain) for k, v in flatten(step.overrides).items()}
        slug = chain[-1].parent
    return None

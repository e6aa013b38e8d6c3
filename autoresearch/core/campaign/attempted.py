"""Attempted ideas as points of the recipe space: which ideas are equal, and what a search can learn from.

Only ideas that change nothing but the recipe are points. An idea built on another one includes the changes of
both; one built on `best` is a point only once the campaign has recorded which idea that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import fingerprint, flatten
from autoresearch.core.campaign.proposer import Attempt


def config_only(hypothesis: Hypothesis) -> bool:
    """Whether it changes nothing but the recipe and is judged by a full run (not a smoke run)."""
    return not (hypothesis.files or hypothesis.patches or hypothesis.blueprint or hypothesis.smoke)


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
        if not config_only(chain[-1]):
            return None
        if chain[-1].is_baseline or chain[-1].parent == BASELINE:
            return {k: v for step in reversed(chain) for k, v in flatten(step.overrides).items()}
        slug = chain[-1].parent
    return None

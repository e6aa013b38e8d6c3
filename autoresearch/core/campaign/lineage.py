"""Lineage: which kept idea the search builds on, and which keeps lost their ground when one was demoted.

Ideas are known by their `index` in the ledger (the baseline is 1); replicates share the index of their idea.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

BASELINE_INDEX = 1


def marked(parents: Mapping[int, int], demoted: Collection[int], confirmed: Collection[int] = ()) -> frozenset[int]:
    """The ideas that were built on a demoted one, over any number of steps.

    `parents`: index -> index of the parent; the baseline needs no entry. A confirmed idea beat the baseline
    by itself: it is not marked, and neither is what was built on it.
    """

    def lost(index: int) -> bool:
        seen = {index}
        while index not in confirmed:
            index = parents.get(index, index)
            if index in demoted and index not in confirmed:
                return True
            if index in seen:  # a root, or a ledger that was edited into a circle
                return False
            seen.add(index)
        return False

    return frozenset(index for index in parents if lost(index))


def incumbent(
    kept: Sequence[int], parents: Mapping[int, int], demoted: Collection[int], confirmed: Collection[int] = ()
) -> int:
    """The idea to build on and to beat: the last kept one that stands; the baseline if there is none.

    `kept`: in the order in which they were decided. Each beat the incumbent of its time or was as good and
    simpler, so the last is the best; its mean may lie a little below that of an earlier, less simple one.
    """
    shaky = marked(parents, demoted, confirmed)
    standing = [index for index in kept if index not in shaky and (index not in demoted or index in confirmed)]
    return standing[-1] if standing else BASELINE_INDEX

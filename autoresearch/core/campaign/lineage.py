"""Lineage: which kept idea the search builds on, and which kept ideas depend on a demoted one.

Ideas are identified by their `index` in the ledger (the baseline is 1); replicates share the index of their idea.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

BASELINE_INDEX = 1


def marked(parents: Mapping[int, int], demoted: Collection[int], confirmed: Collection[int] = ()) -> frozenset[int]:
    """The ideas built, directly or indirectly, on a demoted one.

    `parents`: index -> index of the parent; the baseline needs no entry. A confirmed idea beat the baseline
    in its own right: neither it nor the ideas built on it are marked.
    """

    def lost(index: int) -> bool:
        seen = {index}
        while index not in confirmed:
            index = parents.get(index, index)
            if index in demoted and index not in confirmed:
                return True
            if index in seen:  # a root, or a cycle in a ledger edited by hand
                return False
            seen.add(index)
        return False

    return frozenset(index for index in parents if lost(index))


def incumbent(
    kept: Sequence[int], parents: Mapping[int, int], demoted: Collection[int], confirmed: Collection[int] = ()
) -> int:
    """The idea to build on and to beat: the last kept one that is neither demoted nor marked, else the baseline.

    `kept`: in the order in which they were decided. Each beat the incumbent of its time or was as good and
    simpler, so the last is the best; its mean may be slightly below that of an earlier, less simple one.
    """
    shaky = marked(parents, demoted, confirmed)
    standing = [index for index in kept if index not in shaky and (index not in demoted or index in confirmed)]
    return standing[-1] if standing else BASELINE_INDEX

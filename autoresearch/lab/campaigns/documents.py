"""The documents of a campaign follow each run, as long as writing them takes little of the controller's time.

They tell of every idea, so they take longer the more there are: 0.5 s at 1,000 ideas.
"""

from __future__ import annotations

import time

from autoresearch.lab.campaigns.context import CampaignContext

MOST = 0.02  # of the time


class Documents:
    """Writes them at once if the last ones are old enough, or else when the controller looks again."""

    def __init__(self, context: CampaignContext) -> None:
        self._context = context
        self._owed = True  # by a controller that was killed, perhaps
        self._due = 0.0

    def follow(self) -> None:
        """Something happened that they tell of."""
        self._owed = True
        self.look()

    def look(self) -> None:
        """Write them if they are owed, and it is time."""
        began = time.monotonic()
        if self._owed and began >= self._due:
            self._context.write_documents()
            took = time.monotonic() - began
            self._owed, self._due = False, began + took / MOST

    def due_in(self, at_most: float) -> float:
        """The seconds until they are to be written; `at_most` where none are owed."""
        return min(at_most, max(0.0, self._due - time.monotonic())) if self._owed else at_most

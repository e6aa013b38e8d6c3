"""What the commands do first with a run: record it if it is over, see that it is followed if it is elsewhere.

Cheap where it simply lives: `wait` and `status` are called hundreds of times a night.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoresearch.core.run.spec import RunState
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.runs.outcome import Outcome

ATTEND_S = 30.0  # whoever tells of a run elsewhere may be killed: it is looked after so often


def settled(rundir: RunDir, parts: Parts) -> tuple[RunState, Outcome | None]:
    """What `lab.runs.adopt` makes of a run; its imports are spared where the run simply lives."""
    state = rundir.state()
    if state not in (RunState.ENDED, RunState.DEAD):
        attend(rundir, parts)
        return state, None
    from autoresearch.lab.runs.adopt import adopt

    return adopt(rundir, parts)


def attend(rundir: RunDir, parts: Parts) -> None:
    """A run elsewhere is followed from now on, if nobody did; the import is spared where it is here."""
    if rundir.order.exists():
        from autoresearch.lab.remote.start_follower import attend_run

        attend_run(rundir, parts)

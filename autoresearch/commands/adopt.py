"""`autoresearch adopt`: find every run again after a crash, a reboot, a lost terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.sessions import session_info
from autoresearch.records.rundir import RunDir


def adopt(as_json: Annotated[bool, typer.Option("--json")] = False) -> int:
    """Find every run again after a crash: report the living, record the dead."""
    from pathlib import Path

    from autoresearch.lab.adopt import adopt_all

    runs: list[dict[str, Any]] = []
    lines: list[str] = []
    for found in adopt_all(real_parts()):
        entry = found.entry
        info = session_info(RunDir(Path(entry.run_dir)))
        ending = found.outcome.exit.ending.value if found.outcome else None
        runs.append(
            {
                "run": entry.run,
                "state": found.state.value,
                "ending": ending,
                "attach": info.attach if info else None,
                "result_dir": entry.result_dir,
                "run_dir": entry.run_dir,
            }
        )
        tail = f"recorded as {ending}" if ending else f"attach: {info.attach if info else 'no session'}"
        lines.append(f"{entry.run}  {found.state.value}  {tail}")
    living = [r["run"] for r in runs if r["ending"] is None]
    payload = {
        "runs": runs,
        "living": len(living),
        "recorded": len(runs) - len(living),
        "next": [f"autoresearch wait {living[0]} --for 100s"] if living else [],
    }
    output.emit("adopt", payload, as_json=as_json, lines=lines or ["no run was waiting to be found"])
    return 0

"""`autoresearch adopt`: find every run again after a crash, a reboot, a lost terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.runs.sessions import session_info
from autoresearch.records.rundir import RunDir


def adopt(as_json: Annotated[bool, typer.Option("--json")] = False) -> int:
    """Find every run again after a crash: report the living, record the dead. Exits 6 if one cannot be recorded."""
    from pathlib import Path

    from autoresearch.lab.runs.adopt import adopt_all

    runs: list[dict[str, Any]] = []
    lines: list[str] = []
    for found in adopt_all(real_parts()):
        entry = found.entry
        info = session_info(RunDir(Path(entry.run_dir)))
        ending = found.outcome.exit.ending.value if found.outcome else "lost" if found.deleted else None
        runs.append(
            {
                "run": entry.run,
                "state": found.state.value,
                "ending": ending,
                "trouble": found.trouble or None,
                "attach": info.attach if info else None,
                "result_dir": entry.result_dir,
                "run_dir": entry.run_dir,
            }
        )
        tail = f"recorded as {ending}" if ending else f"attach: {info.attach if info else 'no session'}"
        tail = f"not recorded: {found.trouble}" if found.trouble else tail
        lines.append(f"{entry.run} in {entry.run_dir}  {found.state.value}  {tail}")
    living = [r["run"] for r in runs if r["ending"] is None and not r["trouble"]]
    stuck = [r["run"] for r in runs if r["trouble"]]
    payload = {
        "runs": runs,
        "living": len(living),
        "recorded": len(runs) - len(living) - len(stuck),
        "exit_code": EnvironmentUnusable.exit_code if stuck else 0,
        "next": [f"autoresearch wait {living[0]} --for 100s"] if living else [],
    }
    output.emit("adopt", payload, as_json=as_json, lines=lines or ["no run was waiting to be found"])
    return EnvironmentUnusable.exit_code if stuck else 0

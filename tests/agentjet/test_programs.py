"""The programs of a swarm run by name: faults become lines and an exit code, other runs are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoresearch.agentjet.programs import PROGRAMS, run, stop
from autoresearch.agentjet.swarm_run import free_port
from autoresearch.errors import UsageError
from autoresearch.records import spec_file


def no_process(run_id: str, grace_s: float) -> int:
    raise AssertionError(f"nothing of {run_id} is to be ended")


def test_a_fault_is_a_line_for_the_runner_and_an_exit_code(stand: Any) -> None:
    given = stand.swarm_run(health_s=0.1, url=f"http://127.0.0.1:{free_port()}")
    spec_file.write(given.rundir, given.spec, {})
    assert run("up", str(given.rundir.path), stand.services, stand.said.append) == 3
    assert stand.said[-1].startswith("[swarm] error server_unhealthy: no healthy server at ")


def test_a_server_of_somebody_else_is_left_alone(stand: Any) -> None:
    given = stand.swarm_run()
    spec_file.write(given.rundir, given.spec, {})
    assert stop(str(given.rundir.path), no_process, stand.said.append) and stand.said == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_without_a_server_has_no_such_program(stand: Any, program: str) -> None:
    given = stand.swarm_run()
    spec_file.write(given.rundir, replace(given.spec, swarm=None), {})
    with pytest.raises(UsageError, match="run is no run of swarm mode"):
        run(program, str(given.rundir.path), stand.services, stand.said.append)


def test_an_unknown_program(stand: Any) -> None:
    with pytest.raises(UsageError, match="'down' is no program"):
        run("down", "/no/run", stand.services, stand.said.append)

"""What a Ray job leaves behind on a shared cluster: found by the state API, freed by a small job, and checked again.

Ray itself frees what a driver created when the driver dies. Left over are detached actors and placement groups, the
supervisor of a job that never started (a stop only waits in its queue), and the processes of a killed Runner. Only what
carries the job's mark, name or id is touched.
(ray/dashboard/modules/state/state_head.py, ray/dashboard/modules/job/job_supervisor.py of Ray 2.60)
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.launchers.ray_api import RayApi, quoted

MARK = "AUTORESEARCH_RAY_JOB"  # in the runtime environment of all actors of a job, and of its supervisor
FREED_S = 30.0  # a Ray job takes two seconds for nothing
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
_SUPERVISOR, _SUPERVISORS = "_ray_internal_job_actor_", "SUPERVISOR_ACTOR_RAY_NAMESPACE"
# The interpreter and packages of the parent process: `python` may be anything on that node, or missing.
_BY_RAY = (
    "P=$(sed -n 's|.* \\(/.*\\)/ray/_raylet\\.so$|\\1|p' /proc/$PPID/maps | head -n 1); "
    'exec env PYTHONPATH="$P" "$(readlink /proc/$PPID/exe)" -c '
)
_FREE = """
import json, os, signal, sys, time
what = json.loads(sys.argv[1])
wanted = b"AUTORESEARCH_RUN_ID=" + what["run"].encode()
def carries(pid):
    try:
        return wanted in open(f"/proc/{pid}/environ", "rb").read().split(b"\\0")
    except OSError:
        return False
for _ in range(100 if what["sweep"] else 0):
    found = [int(p) for p in os.listdir("/proc") if p.isdecimal() and carries(p)]
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
            print("killed process", pid)
        except OSError:
            pass
    if not found:
        break
    time.sleep(0.05)
import ray
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup, remove_placement_group
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
for name, namespace in what["actors"]:
    try:
        ray.kill(ray.get_actor(name, namespace=namespace), no_restart=True)
    except ValueError:
        pass
for group in what["groups"]:
    remove_placement_group(PlacementGroup(PlacementGroupID(bytes.fromhex(group))))
"""


@dataclass(frozen=True, slots=True)
class Left:
    """Leftovers of one job."""

    actors: tuple[tuple[str, str], ...] = ()  # name, namespace
    groups: tuple[str, ...] = ()  # ids of placement groups

    def __bool__(self) -> bool:
        return bool(self.actors or self.groups)

    def __str__(self) -> str:
        names = [f"actor {name}" for name, _ in self.actors] + [f"placement group {one}" for one in self.groups]
        return ", ".join(names)


def look(api: RayApi, native: str, number: str) -> Left:
    """Detached leftovers of a job, and its supervisor; `number`: Ray's own id of its driver, or "".

    Raises Unreachable.
    """
    actors = [one for one in api.listed("actors") if one.get("state") != "DEAD"]
    named = [(str(one.get("name")), str(one.get("ray_namespace"))) for one in actors if _is_of(one, native, number)]
    groups = [one for one in api.listed("placement_groups") if one.get("state") != "REMOVED"]
    ours = [one for one in groups if one.get("is_detached") and one.get("creator_job_id") == number]
    return Left(tuple(named), tuple(str(one.get("placement_group_id")) for one in ours))


def free(
    api: RayApi,
    native: str,
    run: str,
    number: str = "",
    *,
    node: str = "",
    sweep: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Left, Left]:
    """Have Ray end all of it; returns (found, still there). `sweep`: also kill the run's processes on a node."""
    left = look(api, native, number)
    if not left and not sweep:
        return left, left
    what = {"run": run, "actors": left.actors, "groups": left.groups, "sweep": sweep}
    body: dict[str, Any] = {
        "entrypoint": _BY_RAY + shlex.join([_FREE, json.dumps(what)]),
        "metadata": {"autoresearch_frees": native},
    }
    if node:
        body["entrypoint_resources"] = {f"node:{node}": 0.001}
    name = str(api.expect(api.ask("POST", "/api/jobs/", body), dict).get("submission_id"))
    until = clock() + FREED_S
    while clock() < until and (api.job(name) or {}).get("status") not in OVER:
        time.sleep(0.2)
    while (still := look(api, native, number)) and clock() < until:
        time.sleep(0.2)
    api.ask("DELETE", f"/api/jobs/{quoted(name)}")
    return left, still


def _is_of(actor: Mapping[str, Any], native: str, number: str) -> bool:
    if actor.get("ray_namespace") == _SUPERVISORS:
        return actor.get("name") == _SUPERVISOR + native
    marked = f'"{MARK}": "{native}"' in str(actor.get("serialized_runtime_env"))
    return bool(actor.get("is_detached")) and (marked or bool(number and actor.get("job_id") == number))

"""Ray's Jobs API over plain HTTP, and what a job leaves behind on a cluster. Nothing of Ray is imported.

Paths and answers as in ray/dashboard/modules/job/{job_head,job_supervisor}.py and modules/state/state_head.py of Ray
2.60 (ray-project/ray at b7f4259e). Address and token are found as `ray job` finds them, see `runner.end_ray_job`.
"""

from __future__ import annotations

import json
import shlex
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.job_launcher import Handle, Unreachable
from autoresearch.runner.end_ray_job import ask, url_of

ANSWER_S = 30.0  # a submit alone waits 10 s for an agent
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
_NOT_NOW = (408, 425, 429, 502, 503, 504)
_TOKEN_HINT = "set RAY_AUTH_TOKEN, or write the cluster's token to ~/.ray/auth_token"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The head's answer. `body` is None if it is no JSON."""

    status: int
    text: str
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 300

    @property
    def last_line(self) -> str:
        """The last line, which in a traceback names the error."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"HTTP {self.status}"


class RayApi:
    """One cluster's head. Every call raises Unreachable if there is no answer, or not one of a Jobs API."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self.url = url_of(address, environ)
        self.environ = environ

    def job(self, native: str) -> dict[str, Any] | None:
        """The head's record of one job; None for no such job."""
        said = self.ask("GET", job_path(native))
        return None if said.status == 404 else dict(self.expect(said, dict))

    def listed(self, what: str) -> list[dict[str, Any]]:
        """All entries of the state API's list of actors, placement_groups or nodes, in full detail."""
        found = self.get(f"/api/v0/{what}?detail=1&limit=10000&timeout=20", dict)
        try:
            return [dict(one) for one in found["data"]["result"]["result"]]
        except (KeyError, TypeError, ValueError):
            raise Unreachable(f"{self.url} does not say which {what} there are", code="odd_answer") from None

    def totals(self, resource: str) -> list[float]:
        """The total of a resource on each living node, in use or not; [0.0] without nodes."""
        nodes = [node for node in self.listed("nodes") if node.get("state") == "ALIVE"]
        return [float((node.get("resources_total") or {}).get(resource, 0.0)) for node in nodes] or [0.0]

    def ask(self, method: str, path: str, body: object = None) -> HttpAnswer:
        """One request; `body` is sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        try:
            status, raw = ask(method, self.url + path, self.environ, data, within_s=ANSWER_S)
        except OSError as error:
            why = getattr(error, "reason", None) or error
            raise Unreachable(f"Ray at {self.url} gives no answer: {why}") from error
        return self._answer(status, raw)

    def get(self, path: str, kind: type, body: object = None) -> Any:
        """The body of the answer to a request that must succeed, of the given type; with a `body`, it is a POST."""
        return self.expect(self.ask("POST" if body is not None else "GET", path, body), kind)

    def expect(self, http_answer: HttpAnswer, kind: type) -> Any:
        """The body of a successful answer of the given type; raises Unreachable otherwise."""
        if http_answer.ok and isinstance(http_answer.body, kind):
            return http_answer.body
        if http_answer.ok:
            raise Unreachable(f"{self.url} is no Ray dashboard: it answers with something else than JSON")
        raise Unreachable(
            f"Ray at {self.url} answers HTTP {http_answer.status}: {http_answer.last_line}", code="odd_answer"
        )

    def _answer(self, status: int, raw: bytes) -> HttpAnswer:
        text = raw.decode("utf-8", "replace")
        if status in (401, 403):
            raise Unreachable(
                f"Ray at {self.url} wants another token (HTTP {status})", code="unauthorized", hint=_TOKEN_HINT
            )
        if status in _NOT_NOW:
            raise Unreachable(f"Ray at {self.url} cannot answer now (HTTP {status})")
        try:
            return HttpAnswer(status, text, json.loads(text))
        except ValueError:
            return HttpAnswer(status, text, None)


def job_path(native: str) -> str:
    """The path of one job."""
    return f"/api/jobs/{urllib.parse.quote(native, safe='')}"


# -- what a job leaves behind ---------------------------------------------------------------------------------------
# Ray itself frees what a driver created when the driver dies. Left over are detached actors and placement groups, the
# supervisor of a job that never started (a stop only waits in its queue), and the processes of a killed Runner. Only
# what carries the job's mark, name or id is touched.

MARK = "AUTORESEARCH_RAY_JOB"  # in the runtime environment of all actors of a job, and of its supervisor
FREED_S = 30.0  # a Ray job takes two seconds for nothing
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


def left_by(api: RayApi, native: str, job: Mapping[str, Any]) -> Left:
    """Detached leftovers of a job, and its supervisor; `job`: the head's record of it, {} for none."""
    number = str(job.get("job_id") or "")  # Ray's own id of its driver
    actors = [one for one in api.listed("actors") if one.get("state") != "DEAD"]
    named = [(str(one.get("name")), str(one.get("ray_namespace"))) for one in actors if _is_of(one, native, number)]
    groups = [one for one in api.listed("placement_groups") if one.get("state") != "REMOVED"]
    ours = [one for one in groups if one.get("is_detached") and one.get("creator_job_id") == number]
    return Left(tuple(named), tuple(str(one.get("placement_group_id")) for one in ours))


def free(api: RayApi, handle: Handle, job: Mapping[str, Any], *, sweep: bool) -> str:
    """Have Ray end what a job left. `sweep`: also kill the run's processes on its node.

    Returns one sentence about it, "" if there was nothing. Raises Unreachable.
    """
    left = left_by(api, handle.native, job)
    if not left and not sweep:
        return ""
    what = {"run": handle.run, "actors": left.actors, "groups": left.groups, "sweep": sweep}
    body: dict[str, Any] = {
        "entrypoint": _BY_RAY + shlex.join([_FREE, json.dumps(what)]),
        "metadata": {"autoresearch_frees": handle.native},
    }
    if node := node_of(job):
        body["entrypoint_resources"] = {f"node:{node}": 0.001}
    name = str(api.get("/api/jobs/", dict, body).get("submission_id"))
    until = time.monotonic() + FREED_S
    while time.monotonic() < until and (api.job(name) or {}).get("status") not in OVER:
        time.sleep(0.2)
    while (still := left_by(api, handle.native, job)) and time.monotonic() < until:
        time.sleep(0.2)
    api.ask("DELETE", job_path(name))
    if still:
        return f"still on Ray, and could not be freed: {still}"
    return f"freed on Ray: {left}" if left else ""


def node_of(job: Mapping[str, Any]) -> str:
    """The address of the node where a job's driver runs; "" before it started."""
    return str(job.get("driver_agent_http_address") or "").removeprefix("http://").rpartition(":")[0]


def _is_of(actor: Mapping[str, Any], native: str, number: str) -> bool:
    if actor.get("ray_namespace") == _SUPERVISORS:
        return actor.get("name") == _SUPERVISOR + native
    marked = f'"{MARK}": "{native}"' in str(actor.get("serialized_runtime_env"))
    return bool(actor.get("is_detached")) and (marked or bool(number and actor.get("job_id") == number))

"""Put everything that a run's Runner needs into its remote directory, before the launcher submits the job.

With shared files that is the Runner, spec and environment. To a host without them go code, recipe and spec, all with
remote paths: below the target's root, each run has `runs/<campaign>/<experiment>-<run>` (the remote run directory),
`results/<the same>` and a directory of its own below `code/`, which the next run of the same worktree takes over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.run.job_launcher import Declined, Job, Reach, Unreachable, Want
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import Kind
from autoresearch.core.run.trainer import SourceFormat
from autoresearch.lab.launch.runner_session import RUNNER
from autoresearch.lab.remote_files.code_files import RECEIVE, is_slot, push
from autoresearch.lab.remote_files.remote_host import (
    LONGEST_S,
    InterpreterSearch,
    RemoteHost,
    checkout_of,
    code_name,
    plain_word,
)
from autoresearch.lab.remote_files.translate_paths import PLAIN, Translation, far_environment, far_spec, keys_of
from autoresearch.lab.resolve.resolve_blueprint import read_blueprint
from autoresearch.lab.resolve.shown_paths import included
from autoresearch.launchers.gpus import words_of
from autoresearch.records import journal
from autoresearch.records.files import read_json
from autoresearch.records.order_file import Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.runner.remote_files import LIVES_IN_CODE

MARGIN_S = 120.0  # beside the limits, for what the Runner does after them
ALLOCATED = ("SLURM_", "RAY_", "CUDA_VISIBLE_", "ROCR_VISIBLE_", "HIP_VISIBLE_", "GPU_DEVICE_ORDINAL")
"""Beginnings of the variables by which a scheduler tells a job what it has."""
LIVE = (SourceFormat.JSONL, SourceFormat.DICT_LINES)  # they grow by lines; stop rules read them
CHECKOUT = (  # the directory of a Runner, its name, and what to check out -> a message, or nothing
    "import importlib, json, sys; sys.path.insert(0, sys.argv[1]); "
    "files = importlib.import_module(sys.argv[2] + '.remote_files'); "
    "sys.exit(files.checkout(**json.loads(sys.argv[3])).get('error'))"
)
GIVEN = "given"  # in a remote run directory: a recipe from outside of the code


def ship(recorded: RecordedRun, order: Order, reach: Reach) -> tuple[Order, Job]:
    """Write spec, environment and Runner to the target; safe to repeat. The returned order has their directory.

    Raises Declined if the target cannot take it, or Unreachable.
    """
    rundir, spec = recorded.rundir, recorded.spec
    if not reach.shared:
        if spec.swarm is not None:
            why = f"swarm mode needs our own command beside the run, and {order.place.name} does not see our files"
            raise Declined(why, code="swarm_not_there", hint="start it where its server is: --launcher local")
        return _Upload(recorded, order, RemoteHost(reach, order.place)).send()
    order = replace(order, directory=str(rundir.far))
    runner = _runner_below(f"{rundir.path.parent}/.far")
    if not Path(runner, "whole").exists():  # once per version
        reach.put(runner, runner_files())
        reach.put(runner, {"whole": b""})
    far = (read_json(rundir.spec) or {}) | keys_of(order.directory) | _leased_there(order)
    far |= {"inherit": [*ALLOCATED, "CUDA_DEVICE_ORDER"]}
    environment = rundir.environment.read_bytes() if rundir.environment.exists() else b""
    python = str(Path(order.place.text("python")).expanduser()) if order.place.text("python") else ""
    container = shlex.split(order.place.text("container"))
    if contained := bool(container) or order.place.kind == Kind.KUBERNETES:  # it has its own PATH, HOME, python
        far |= {"inherit": [""], "yields": _not_declared(environment, order.declared)}
        far |= {} if _environment_of(spec.interpreter) else {"interpreter": ""}
    files = {"spec.json": json.dumps(far).encode()}
    if environment:
        files["environment"] = _without_our_allocation(environment, order.declared)
    reach.put(order.directory, files, private=("environment", "spec.json"))
    job = job_of(spec, order, runner, python or ("" if contained else spec.interpreter) or "python3", spec.cwd)
    return order, replace(job, argv=(*container, *job.argv))


def job_of(spec: RunSpec, order: Order, runner: str, python: str, cwd: str) -> Job:
    """The job that starts the Runner at `runner`."""
    limits = spec.limits
    return Job(
        run=spec.run,
        name=spec.session,
        campaign=spec.campaign,
        directory=order.directory,
        argv=(python, "-S", "-E", "-s", runner, order.directory),
        cwd=cwd,
        max_s=limits.max_s + (spec.evaluate_s if spec.evaluate else 0.0) + 2 * limits.grace_s + MARGIN_S,
        grace_s=limits.grace_s,
        gpus=order.gpus,
        environment={"AUTORESEARCH_RUN_ID": spec.run},
        again=order.submitting is not None,
    )


def _leased_there(order: Order) -> dict[str, object]:
    """The GPUs that the Runner leases there: of an ssh host, as a scheduler gives out its own.

    If no number is configured: one, or all of them if runs do not share the host.
    """
    target, wanted = order.place, order.place.options.get("gpus") or "none"
    words, most = ([str(one) for one in wanted], 0) if isinstance(wanted, list) else words_of(str(wanted))
    if target.kind != Kind.SSH or not (order.gpus or (words and "gpus_per_run" not in target.options)):
        return {"gpus": [], "gpu_count": 0}
    return {"gpus": words or ["all"], "gpu_most": most, "gpu_count": order.gpus or int(target.slots > 1)}


def runner_files() -> dict[str, bytes]:
    """The Runner's own files, by name: what another host needs of us."""
    return {path.name: path.read_bytes() for path in sorted(Path(RUNNER).iterdir()) if path.suffix in (".py", ".json")}


def _runner_below(root: str) -> str:
    """The directory of this version of the Runner: a name that Python takes for a package."""
    data = b"".join(name.encode() + body for name, body in runner_files().items())
    return f"{root}/runner_{hashlib.sha256(data).hexdigest()[:12]}"


def _not_declared(environment: bytes, declared: tuple[str, ...]) -> list[str]:
    """The names of the variables that the run has from the shell alone."""
    names = (os.fsdecode(pair).partition("=")[0] for pair in environment.split(b"\0"))
    return [name for name in names if name == "PATH" or name not in declared]


def _without_our_allocation(environment: bytes, declared: tuple[str, ...]) -> bytes:
    """Drop this machine's own scheduler variables, which mean nothing in the job; the Runner adds the job's own."""
    mine = tuple(name.encode() for name in ALLOCATED)
    kept = {name.encode() for name in declared}
    pairs = environment.split(b"\0")
    return b"\0".join(p for p in pairs if not p.startswith(mine) or p.partition(b"=")[0] in kept)


class _Upload:
    """The upload of one run to a host without shared files."""

    def __init__(self, recorded: RecordedRun, order: Order, remote_host: RemoteHost) -> None:
        rundir, spec = recorded.rundir, recorded.spec
        self.rundir, self.spec, self.order, self.there = rundir, spec, order, remote_host
        self.target = order.place
        self.again = bool(order.directory)
        self.record = read_json(rundir.spec) or {}
        self.environment: dict[str, str] = {}  # {} if its Runner has it already
        if rundir.environment.exists():
            pairs = (os.fsdecode(item).partition("=") for item in rundir.environment.read_bytes().split(b"\0"))
            self.environment = {name: value for name, equals, value in pairs if name and equals}
        self.home = self.environment.get("HOME", os.environ.get("HOME", ""))
        self.root = checkout_of(Path(spec.cwd)).root
        self.search = InterpreterSearch(order.place, spec.interpreter, Path(spec.cwd), bool(spec.prepare))
        self.apart = str(checkout_of(Path(spec.evaluate_in)).root) if spec.evaluate_in else ""

    def send(self) -> tuple[Order, Job]:
        """Send everything, unless a Runner has claimed the run: files of a started run are not touched."""
        if self.again and self._is_claimed():
            return self.order, self._job(self.order, str(Path(self.order.directory).parents[2]))
        found = self._survey()
        try:
            order = self._send(found)
        except Declined:
            with contextlib.suppress(Unreachable, Declined):  # its code directory may be another run's
                self.there.ask("release", code=found["code"], directory=found["directory"])
            raise
        return order, self._job(order, found["root"])

    def _job(self, order: Order, root: str) -> Job:
        cwd = Translation(order.paths).path(self.spec.cwd)
        return job_of(self.spec, order, _runner_below(root), self.there.python, cwd)

    def _is_claimed(self) -> bool:
        seen = self.there.reach.look([Want(self.spec.run, self.order.directory)])
        return seen[self.spec.run].claimed

    def _send(self, host: Mapping[str, Any]) -> Order:
        """Code first, then spec and environment; the run directory gets its spec last."""
        runner, python = _runner_below(host["root"]), self._interpreter(host)
        far = self._far(host, runner, python)
        translation = Translation(far, self.home)
        self._send_code(host, translation)
        self.there.put(runner, runner_files())
        record = far_spec(self.record, translation)
        record |= keys_of(host["directory"]) | self._evaluation(host, far, runner)
        # the remote host keeps its own PATH, HOME ...
        record |= {"inherit": [""], "interpreter": python} | _leased_there(self.order)
        files = {"spec.json": json.dumps(record).encode()}
        if self.environment:
            declared = far_environment(self.environment, self.order.declared, translation)
            pairs = (f"{k}={v}".encode("utf-8", "surrogateescape") for k, v in declared.items())
            files["environment"] = b"\0".join(pairs)
        self.there.put(host["directory"], files, private=("environment", "spec.json"))
        self._tell(far)
        watched = self.order.watched if self.again else self._watched(translation)
        return replace(self.order, directory=host["directory"], paths=far, watched=watched, code=host["code"])

    # -- what maps to what --------------------------------------------------------------------------------------

    def _survey(self) -> dict[str, Any]:
        """Have the host make room, and report what it has."""
        found = self.there.ask(
            "survey",
            root=self.target.text("root"),
            name=f"{plain_word(self.spec.campaign)}/{plain_word(self.spec.experiment)}-{self.spec.run}",
            code=self.search.code,
            interpreters=self.search.paths,
        )
        if not PLAIN.match(found["root"]):
            raise Declined(f"{self.target.name}: the root {found['root']!r} has characters that a shell would read")
        return found

    def _interpreter(self, host: Mapping[str, Any]) -> str:
        if python := str(host["interpreter"]):
            return python
        if self.spec.prepare:  # it may be created there
            return f"{host['code']}/.venv/bin/python"
        raise self.search.missing()

    def _far(self, host: Mapping[str, Any], runner: str, python: str) -> dict[str, str]:
        """Local path -> remote path, for every mapped directory and file that a text may name."""
        spec = self.spec
        far = {sys.executable: self.there.python, str(RUNNER): runner, spec.run_dir: host["directory"]}
        far |= {spec.result_dir: host["results"]}
        code, recipe = host["code"], Path(spec.recipe)
        inside = os.path.relpath(os.path.realpath(spec.cwd), self.root)
        far |= {str(self.root): code, spec.cwd: os.path.normpath(f"{code}/{inside}")}
        if environment := _environment_of(spec.interpreter):
            far[environment] = str(Path(python).parents[1])
        far[spec.interpreter] = python
        if self.apart and self.apart != str(self.root):
            far[self.apart] = f"{code}-evaluation"
        if spec.recipe and not self._inside(recipe):
            far[spec.recipe] = f"{host['directory']}/{GIVEN}/{recipe.name}"
        return {**far, **_paths_option(self.target.options)}

    def _inside(self, path: Path) -> str:
        """A path relative to the root of the code; "" if it lies outside."""
        real = os.path.realpath(path)
        return os.path.relpath(real, self.root) if real.startswith(f"{self.root}/") else ""

    # -- what is sent -------------------------------------------------------------------------------------------

    def _send_code(self, host: Mapping[str, Any], translation: Translation) -> None:
        """Have the host check out exactly the run's commit; beside it goes the recipe, with remote paths."""
        links = self._environment_links(host)
        if inside := self._inside(Path(self.spec.result_dir)):
            links[inside] = host["results"]
        checkout = self._checkout(host, Path(self.spec.cwd), self.spec.commit, host["code"])
        self.there.ask("checkout", within_s=LONGEST_S, **checkout, links=links)
        for directory, files in self._recipes(translation).items():
            self.there.put(host[directory], files)

    def _checkout(self, host: Mapping[str, Any], directory: Path, commit: str, there: str) -> dict[str, Any]:
        """Push the code of a directory; returns the request that makes a directory on the host of it."""
        checkout = checkout_of(directory)
        if not (commit := checkout.head if is_slot(checkout.root) else commit):
            why = f"{self.target.name} gets a run's commit, and this one has no commit: {self.spec.no_snapshot}"
            raise Declined(why, code="no_commit")
        git_dir = f"{host['root']}/repositories/{code_name(checkout.project)}.git"
        words = self.there.reach.command(["sh", "-c", RECEIVE, git_dir])
        path = Path(self.spec.blueprint)  # it may have gone since; what a campaign includes is in its worktrees
        notes = read_blueprint(path).blueprint.notes if path.is_file() and not is_slot(checkout.root) else None
        include = [one for text in (notes.include if notes else ()) for one, _ in included(checkout.root, text)]
        commit = push(checkout, commit, words, self.rundir.path / "pushed", include)
        return {"git_dir": git_dir, "commit": commit, "code": there}

    def _environment_links(self, host: Mapping[str, Any]) -> dict[str, str]:
        """The environment of the host under the name that a command such as `.venv/bin/python` gives it in the code."""
        ours, theirs = _environment_of(self.spec.interpreter), str(Path(self._interpreter(host)).parents[1])
        if not ours or theirs.startswith(f"{host['code']}/"):
            return {}
        return {name: theirs for name in LIVES_IN_CODE if os.path.realpath(self.root / name) == os.path.realpath(ours)}

    def _recipes(self, translation: Translation) -> dict[str, dict[str, bytes]]:
        """The recipe with remote paths, in the code or beside the run."""
        recipe = Path(self.spec.recipe) if self.spec.recipe else None
        if recipe is None or not recipe.is_file():
            return {}
        inside, data = self._inside(recipe), _translated(recipe.read_bytes(), translation)
        return {"code" if inside else "directory": {inside or f"{GIVEN}/{recipe.name}": data}}

    def _evaluation(self, host: Mapping[str, Any], far: Mapping[str, str], runner: str) -> dict[str, object]:
        """The command that makes the evaluation directory afresh, as the local one is now."""
        if not self.spec.evaluate_place:
            return {}
        if not is_slot(Path(self.apart)):
            why = f"runs on {self.target.name} cannot be measured apart from their own code"
            raise Declined(why, code="no_evaluation_place", hint="take `evaluate:` out, or have it run here")
        checkout = {**self._checkout(host, Path(self.apart), "", far[self.apart]), "links": {}, "anew": True}
        words = [self.there.python, "-S", "-E", "-s", "-c", CHECKOUT, *os.path.split(runner), json.dumps(checkout)]
        return {"evaluate_place": shlex.join(words)}

    def _watched(self, translation: Translation) -> dict[str, str]:
        """Metrics files to mirror while they grow: those that do not exist locally yet."""
        plain = [one for one in self.spec.sources if one.format in LIVE and not set(one.path) & set("*?[")]
        new = [one.path for one in plain if not os.path.lexists(one.path)]
        return {translation.path(path): path for path in new if translation.path(path) != path}

    def _tell(self, far: Mapping[str, str]) -> None:
        if not self.again:
            place = Path(self.spec.result_dir)
            for here in (str(self.root), self.spec.result_dir):
                if here in far:
                    journal.append(place, f"sent to {self.target.name}: {here} -> {far[here]}")


def _paths_option(options: Mapping[str, Any]) -> dict[str, str]:
    """The `paths:` option of a target: local directories -> the same on the host."""
    given = options.get("paths") or {}
    if not isinstance(given, Mapping) or not all(PLAIN.match(str(far)) for far in given.values()):
        raise Declined("paths: must map directories here to absolute ones there, such as {/data: /mnt/data}")
    return {str(here).rstrip("/"): str(far).rstrip("/") for here, far in given.items()}


def _environment_of(interpreter: str) -> str:
    """The virtual environment of an interpreter; "" if its path shows none."""
    place = Path(interpreter).parent.parent
    return str(place) if any((place / sign).exists() for sign in ("pyvenv.cfg", "conda-meta")) else ""


def _translated(data: bytes, translation: Translation) -> bytes:
    return translation.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

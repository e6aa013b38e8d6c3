"""Launch a resolved run: claim its directories, commit its code to a branch, hand it to the Runner."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
from dataclasses import replace

from autoresearch.errors import AutoresearchError, BlueprintError, EnvironmentUnusable
from autoresearch.lab.launch.claim import claim, hide_records, prepare_result_dir, with_what_is_there
from autoresearch.lab.launch.prepared_run import STOPPED, Launched, PreparedRun
from autoresearch.lab.launch.runner_session import start_session, write_spec
from autoresearch.lab.launch.snapshot_code import keep_code
from autoresearch.lab.resolve.host_check import check_local
from autoresearch.lab.resolve.resolved_run import ResolvedRun
from autoresearch.lab.runs.adopt import erase, record_failed_launch
from autoresearch.records import finish_flag, journal
from autoresearch.records.rundir import locked
from autoresearch.runner.basics import failpoint
from autoresearch.trainers import ask, nrl_k8s

NRL_S = 60.0  # seconds; it loads recipes by omegaconf, which imports a lot


def launch(resolved_run: ResolvedRun) -> Launched:
    """Start the run; from the first claim on, every failure ends in records (see `lab.runs.adopt`)."""
    return prepare(resolved_run).go()


def prepare(resolved_run: ResolvedRun, *, ahead: bool = False, runner: bool = True) -> PreparedRun:
    """Everything but the start: directories claimed, code committed, a Runner waiting in its session.

    `ahead`: it is prepared while another run still trains, and leaves no record if it is never started.
    `runner` False: its target is chosen at the start, so no Runner is started before.
    """
    _refuse(resolved_run, ahead=ahead)
    server, parts = ask.server(resolved_run.trainer_settings.trainer), resolved_run.options.parts
    visible = hide_records(resolved_run)  # before the first record
    run = claim(resolved_run, ahead=ahead)
    run = replace(run, spec=server.with_server_metrics(run.spec))
    held = contextlib.ExitStack()
    try:
        held.enter_context(locked(run.directory.launching))
        failpoint("launch.claimed")
        prepare_result_dir(run)
        for text in visible:
            journal.append(run.result_dir, f"not hidden from git status: {text}")
        run = replace(run, spec=with_what_is_there(run.spec))
        write_spec(run, ahead=ahead)
        waits = runner and run.options.target.is_local
        session = start_session(run) if waits else None  # gets ready while the code is kept
        failpoint("launch.session_started")
        run = run if run.options.campaign_run else keep_code(run)
        failpoint("launch.branch_made")
        write_spec(run, ahead=ahead)
        finish_flag.reserve(run.result_dir)
    except (AutoresearchError, OSError) as error:
        if ahead:  # nothing was started; the caller handles the failure
            run.directory.spec.unlink(missing_ok=True)
            held.close()
            erase(run.directory, run.spec.run, parts)
            raise
        held.close()
        record_failed_launch(run.directory, parts, str(error))
        raise
    except BaseException as error:
        held.close()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(STOPPED.format(run.spec.run)) from None
        raise
    return PreparedRun(run, session, ahead, held)


def _refuse(resolved_run: ResolvedRun, *, ahead: bool) -> None:
    """Raise an AutoresearchError for whatever prevents the run, before anything is written."""
    resolved_run.refuse()
    options = resolved_run.options
    check_local(None if ahead else options.tmux_socket, options.parts, options.checkout)
    if options.target.is_local:
        _check_nrl(resolved_run)
    if not ahead:  # when prepared ahead, the previous run still has the port
        ask.server(resolved_run.trainer_settings.trainer).check_port(resolved_run.spec)


def _check_nrl(resolved_run: ResolvedRun) -> None:
    """Refuse a launch that `nrl-k8s` would refuse, or whose tools are missing; contacts no cluster."""
    spec, environment = resolved_run.spec, dict(resolved_run.options.environment)
    run, path = nrl_k8s.find(spec.command), environment.get("PATH")
    if run is None:
        return
    inside = "KUBERNETES_SERVICE_HOST" in environment  # in a pod it needs no kubectl
    for tool in ("nrl-k8s",) if inside else ("nrl-k8s", "kubectl"):
        if shutil.which(tool, path=path) is None:
            message = f"{tool} is not on PATH, and the launch command needs it"
            raise EnvironmentUnusable(message, code=f"no_{tool.replace('-', '_')}", hint=f"install {tool}")
    if any(set(word) & set("$`*") for word in run.check):  # only a shell can expand these words
        return
    words = [str(shutil.which(run.check[0], path=path)), *run.check[1:]]
    try:
        said = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, cwd=spec.cwd, env=environment, timeout=NRL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnusable(f"nrl-k8s check gave no answer: {error}", code="nrl_check_failed") from error
    if said.returncode != 0:
        lines = (said.stderr or said.stdout).decode("utf-8", "replace").strip().splitlines()
        reason = lines[0] if lines else f"exit code {said.returncode}"
        raise BlueprintError(f"nrl-k8s check refuses it: {reason}", hint=shlex.join(run.check), code="nrl_check_failed")

"""Whether processes started here outlive the command that starts them; checked before anything is written.

In a coding agent's sandbox a run is lost silently: tmux exits with 0 and its session dies with the command, or git's
directory cannot be written. Such a command is refused, with the command to use instead.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.run.job_launcher import Declined, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.launchers import host_sandbox_check
from autoresearch.launchers.program import install_line

if TYPE_CHECKING:
    from autoresearch.lab.remote_files.interpreter import InterpreterSearch


def check_sandbox(parts: Parts) -> None:
    """Refuse to run in a sandbox, before its other limits (a home that cannot be written ...) cause misleading
    errors.
    """
    _refuse(host_sandbox_check.findings(host_sandbox_check.look(parts.environ)), parts)


def check_local(tmux_socket: str, parts: Parts, checkout: Checkout | None = None) -> None:
    """Refuse if nothing can be started here, or its code not be committed to `checkout` (None: no repository is
    written).
    """
    _refuse(parts.launcher(tmux_socket).preflight(), parts)
    for git_dir in {checkout.git_dir, checkout.common_dir} if checkout else ():
        if host_sandbox_check.forbids_writing(git_dir):
            _refuse([host_sandbox_check.git_is_read_only(git_dir)], parts)
    if shutil.which("bash") is None:
        raise EnvironmentUnusable("bash is not on PATH; launch commands run as `bash -c`", code="no_bash")


def check_remote(target: Target, parts: Parts, search: InterpreterSearch | None = None) -> tuple[Finding, ...]:
    """Refuse if a run could not be sent: a missing tool, an invalid option, no interpreter.

    Returns the remaining findings, which do not prevent the run.
    """
    findings = remote_findings(target, parts, search)
    _refuse(findings, parts)
    return tuple(findings)


def remote_findings(target: Target, parts: Parts, search: InterpreterSearch | None = None) -> list[Finding]:
    """All problems of a target now, prefixed with its name; an unreachable one is an error too.

    `search`: the interpreter that must exist there; skipped for pods (their image has it) and for shared files.
    """
    if target.is_local:
        return []
    launcher = parts.launcher_for(target, parts.environ)
    try:
        findings = launcher.preflight()
        if search and not errors(findings) and not launcher.reach.shared and target.kind is not Kind.KUBERNETES:
            search.run(launcher.reach)
    except (Unreachable, Declined) as no:
        findings = [Finding(Severity.ERROR, no.code, no.reason, no.hint)]
    finally:
        launcher.reach.close()
    named = f"{target.name}: "
    return [one if one.message.startswith(named) else replace(one, message=named + one.message) for one in findings]


def _refuse(findings: list[Finding], parts: Parts) -> None:
    bad = next((finding for finding in findings if finding.severity is Severity.ERROR), None)
    if bad is None:
        return
    fix = install_line("tmux") if bad.code == "no_tmux" else ""
    if bad.hint == host_sandbox_check.REMEDY:
        fix = host_sandbox_check.way_out(host_sandbox_check.look(parts.environ), parts.environ)
    raise EnvironmentUnusable(bad.message, code=bad.code, hint=bad.hint, fix=fix)

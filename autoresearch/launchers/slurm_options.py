"""The options of a Slurm target, and its launcher: local or on a login node, one job per run or one allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.job_launcher import Reach
from autoresearch.core.run.targets import Target
from autoresearch.launchers import slurm_job as jobs
from autoresearch.launchers.slurm import SlurmLauncher
from autoresearch.launchers.slurm_allocation import SlurmAllocation
from autoresearch.launchers.ssh_words import CONNECTION

OPTIONS = {
    **{name: meaning for name, meaning in CONNECTION.items() if name != "setup"},
    "host": "a login node, where Slurm's commands are called over ssh; default: they are called here",
    "shared": "true: the login node sees this machine's files under the same paths; nothing is copied",
    "login_setup": "shell words that are run first on the login node, such as `. /etc/profile`",
    **jobs.OPTIONS,
}


def launcher_of(target: Target, environ: Mapping[str, str]) -> SlurmLauncher:
    """The launcher that a target's options ask for. Raises UsageError for invalid options."""
    reach: Reach | None = None
    if target.text("host"):
        from autoresearch.launchers.ssh_reach import SshReach

        options = {name: value for name, value in target.options.items() if name != "setup"}
        options |= {"setup": target.text("login_setup")} if target.text("login_setup") else {}
        reach = SshReach(replace(target, options=options), environ)
    shares = truth(target.text("interactive"))
    return (SlurmAllocation if shares else SlurmLauncher)(target, environ, reach=reach)

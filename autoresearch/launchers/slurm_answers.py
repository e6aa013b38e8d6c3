"""Classifies failing Slurm commands: unreachable, or refused by Slurm."""

from __future__ import annotations

import re

from autoresearch.core.run.job_launcher import Declined, ProgramOutput, Unreachable

# Sentences of slurm_strerror (Slurm 22.05, src/common/slurm_errno.c) and of the C library that say nothing of a job.
_SILENCE = re.compile(
    r"Unable to contact slurm|Socket timed out|in standby mode|Zero Bytes were transmitted|Transport endpoint"
    r"|Connection (refused|reset|timed out)|No route to host|Network is unreachable|temporarily"
    r"|Unable to establish|Could not establish a configuration source|failed to fetch config"
    r"|Error (connecting|opening)|Communication (connection|shutdown)|Header lengths|Broken pipe|Insane message length"
    r"|Database (is|not) |slurmdbd|Incompatible versions|Name or service not known|failure in name resolution",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(r"munge|authentication|Invalid .*credential|expired", re.IGNORECASE)
_CREDENTIAL_HINT = "Slurm's credentials are refused here; `munge -n | unmunge` shows whether munged works"
_HINTS = (
    (
        r"invalid partition|partition name",
        "partition",
        "change `partition` of the target; `sinfo -s` lists what there is",
    ),
    (
        r"accounting/qos|policy",
        "policy",
        "your account's limits forbid it: fewer slots, a smaller job, or another `qos`",
    ),
    (r"account", "account", "change `account` of the target; `sacctmgr show associations user=$USER` lists yours"),
    (r"\bqos\b", "qos", "change `qos` of the target; or fewer slots, where it limits how many jobs you may submit"),
    (r"gres|generic resource", "gres", "change `gres` or `gpus_per_run`; `sinfo -o '%N %G'` lists what nodes have"),
    (r"time limit|--time", "time", "set `time` of the target to the partition's limit, or a shorter exp_max_time"),
    (r"reservation", "reservation", "change `reservation` of the target; `scontrol show reservation` lists them"),
    (r"feature", "constraint", "change `constraint` of the target; `sinfo -o '%N %f'` lists features"),
    (r"node name", "nodes", "change `nodelist` or `exclude` of the target; `sinfo -N` lists nodes"),
    (r"dependency", "dependency", "change `dependency` of the target"),
    (r"memory", "mem", "ask for less memory: `mem` of the target"),
    (r"node configuration|node count|processors", "resources", "no node of the partition has that; ask for less"),
    (
        r"unrecognized option|invalid option",
        "option",
        "this Slurm's sbatch has no such option: see `extra` of the target",
    ),
    (r"unable to open file|no such file", "script", "change `script` of the target"),
)


def number(program: str, output: ProgramOutput) -> str:
    """The number of the submitted job; a site's own lines may surround it.

    Raises Unreachable without one: a job may exist, and is searched for before another submit.
    """
    if output.returncode:
        raise silence(program, output) or refusal(output)
    if found := re.findall(r"^(?:Submitted batch job )?(\d+)(?:;\S*)?\s*$", output.text, re.MULTILINE):
        return str(found[-1])
    raise Unreachable(f"{program} told no number of its job: {output.complaint}", code="odd_answer")


def sentence(output: ProgramOutput) -> str:
    """Slurm's error message without `sbatch: error:`; the line that names the cause comes first."""
    lines = (output.err or output.out).decode("utf-8", "replace").strip().splitlines()
    told = [re.sub(r"^(\w+: )?(error|fatal): ", "", line).strip() for line in lines if not line.startswith("Try ")]
    told = [re.sub(r"^sbatch: ", "", line) for line in told if line]
    return "; ".join(dict.fromkeys(told))[:400] or f"exit code {output.returncode}"


def silence(program: str, output: ProgramOutput) -> Unreachable | None:
    """The Unreachable of a failure that says nothing about any job; None for any other failure."""
    words = (output.err + output.out).decode("utf-8", "replace")
    if output.returncode == 127 or (output.returncode < 0 and not words):
        return Unreachable(f"{program} could not be run: {sentence(output)}", code=f"no_{program}")
    if _CREDENTIAL.search(words) and not _SILENCE.search(words):
        return Unreachable(f"{program}: {sentence(output)}", code="unauthorized", hint=_CREDENTIAL_HINT)
    if _SILENCE.search(words):
        return Unreachable(f"{program}: {sentence(output)}")
    return None


def refusal(output: ProgramOutput) -> Declined:
    """The Declined of a refusal by sbatch, with a hint what to change."""
    words = sentence(output)
    for pattern, what, hint in _HINTS:
        if re.search(pattern, words, re.IGNORECASE):
            return Declined(f"sbatch: {words}", code=f"refused_{what}", hint=hint)
    return Declined(f"sbatch: {words}", code="refused", hint="`sbatch --test-only` with the same options says more")

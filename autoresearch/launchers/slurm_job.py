"""What Slurm is told and what it says: options, the batch script, and the words of its commands. Pure.

Formats as Slurm 22.05 prints them (`squeue --Format`, `sacct --parsable2`); states are those of JOB STATE CODES and JOB
REASON CODES in squeue(1), sentences of failures those of slurm_strerror (src/common/slurm_errno.c).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Declined, Job, JobState, Observation, ProgramOutput, Unreachable
from autoresearch.core.run.targets import Target
from autoresearch.core.text.durations import parse_duration
from autoresearch.core.text.regex import later

OUTPUT = "slurm.out"
SCRIPT = "slurm.sh"  # the batch script in the run directory; `sbatch` of it by hand starts the same
MARGIN_S = 300.0  # of walltime beyond the run's limits
SIGNAL_S = 120  # so long before the walltime's end the Runner is told
EARLY_S = 60.0  # Slurm may send its signal this much earlier than requested
NOT_SHARED_EXIT = 66  # of our batch script, if it does not see the run directory
OPTIONS = {
    "dependency": "sbatch --dependency, beside the one that keeps two jobs of one run apart",
    "cluster": "sbatch --clusters, where several are served from here",
    "setup": "shell lines before the Runner: module load ...; what they export reaches the trainer",
    "environment": "variables for the job: NAME: value",
    "time": "the longest walltime to ask for, such as 4h; default: what the run's limits need",
    "container": "the words that start a program in a container: apptainer exec --nv --bind /work rl.sif",
    "script": "a launch script such as NeMo-RL's ray.sub: it is submitted, and the Runner is its COMMAND",
}

# `exec` at the end: Slurm's signals reach the Runner. New files may show late on other nodes (network file systems).
_SCRIPT = """#!/bin/bash
{options}
trap '' USR1  # of the walltime: until the Runner listens, it would end the job
cd / && umask 022
far={far}
for look in 1 2 3 4 5 6 7 8 9 10; do
    [ -e "$far/spec.json" ] && break
    [ $look = 10 ] && {{ echo "$(hostname) does not see $far: it shares no file system with us"; exit {not_shared}; }}
    sleep {pause}
done
{given}{setup}exec {argv}
"""
# The trainer's environment is a file that the Runner reads; to it, the Runner adds what Slurm set for this job.
_SETUP = """declare -A before
while IFS= read -r -d '' pair; do before["$pair"]=1; done < <(env -0)
{lines}if [ -f "$far/environment" ]; then  # what was set up here stands at its end, and so it counts
    while IFS= read -r -d '' pair; do
        [ -n "${{before["$pair"]+x}}" ] || printf '\\0%s' "$pair"
    done < <(env -0) >> "$far/environment"
fi
"""


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """A target's options, read once."""

    cluster: tuple[str, ...]  # the words that name it, for every client command
    resources: tuple[str, ...]  # what sbatch is asked for
    names_gpus: bool
    environment: Mapping[str, str]
    setup: str
    contained: bool  # a container passes on what was set up for it, if it does
    script: str
    dependency: str
    time_s: float  # 0: what the run's limits need

    @classmethod
    def of(cls, target: Target, ours: Container[str]) -> SlurmOptions:
        """`launchers.registry` has checked what the options hold. Those that are not ours are sbatch's own."""
        given = target.options
        setup, variables = given.get("setup") or "", given.get("environment") or {}
        passed_on = {name: value for name, value in given.items() if name not in ours}
        return cls(
            cluster=(f"--clusters={target.text('cluster')}",) if target.text("cluster") else (),
            resources=tuple(_flag(name, value) for name, value in passed_on.items() if value is not False),
            names_gpus=any(name.startswith(("gpus", "gres")) for name in passed_on),
            environment={str(name): str(value) for name, value in variables.items()},
            setup=setup if isinstance(setup, str) else "\n".join(map(str, setup)),
            contained=bool(target.text("container")),
            script=target.text("script"),
            dependency=target.text("dependency"),
            time_s=parse_duration(target.text("time", "0s")),
        )

    def resource_words(self, gpus: int) -> list[str]:
        """sbatch's words for resources. The scheduler chooses the GPUs: CUDA_VISIBLE_DEVICES is its own."""
        ours = [f"--gres=gpu:{gpus}"] if gpus and not self.names_gpus else []
        return [*ours, *self.resources]

    def minutes(self, max_s: float) -> int:
        """The walltime: beyond the Runner's own limits, with room for a signal that comes early."""
        needed = max_s + MARGIN_S + SIGNAL_S + EARLY_S
        return max(1, math.ceil(min(needed, self.time_s or needed) / 60))

    def words(self, job: Job) -> list[str]:
        """sbatch's options for a run.

        `singleton`: should one run ever have two jobs, the second waits until the first is over, and is then refused.
        """
        found = [*self.cluster, f"--job-name={job.name}", f"--comment={comment(job)}"]
        found += ["--no-requeue", "--open-mode=append", f"--output={escaped(job.directory)}/{OUTPUT}"]
        dependency = ",".join(word for word in ("singleton", self.dependency) if word)
        found += [f"--time={self.minutes(job.max_s)}", f"--dependency={dependency}"]
        if not self.script:  # there the Runner is in a step, and a batch shell would die of it
            found.append(f"--signal=B:USR1@{SIGNAL_S}")
        return found + self.resource_words(job.gpus)

    def batch_script(self, job: Job, *, pause_s: float = 3.0) -> str:
        """The batch script of a run: look for its directory, set up, become its Runner."""
        lines = _exports(self.environment) + (f"{self.setup}\n" if self.setup else "")
        return _SCRIPT.format(
            options="\n".join(f"#SBATCH {shlex.quote(word)}" for word in self.words(job)),
            far=shlex.quote(job.directory),
            not_shared=NOT_SHARED_EXIT,
            pause=pause_s,
            given=_exports(job.environment),
            setup=_SETUP.format(lines=lines) if lines and not self.contained else lines,
            argv=shlex.join(job.argv),
        )


def _flag(name: str, value: object) -> str:
    """An option as a word of sbatch: `mem_per_cpu: 4G` is `--mem-per-cpu=4G`, `exclusive: true` is `--exclusive`."""
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag}={','.join(map(str, value)) if isinstance(value, list) else value}"


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def comment(job: Job) -> str:
    """The comment that identifies the job, even if another one has its name."""
    return "autoresearch:" + ":".join(re.sub(r"[^\w./@+-]", "_", text) for text in (job.campaign, job.run))


def escaped(path: str) -> str:
    """A path in which Slurm finds no filename pattern."""
    return path.replace("\\", "\\\\").replace("%", "%%")


# -- states -------------------------------------------------------------------------------------------------------

# A width of 0 means unlimited; the field that may hold anything comes last.
FIELDS = "JobID:0|,State:0|,exit_code:0|,NodeList:0|,Name:0|,Reason:0|,Comment:0"
SACCT_FIELDS = "JobIDRaw,State,ExitCode,NodeList,JobName"
_NO_STDOUT_SIGNAL = 53  # how Slurm records that the node could not open the job's output file
_RUNNING = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED"}
_OVER: dict[str, tuple[Ending | None, str, str]] = {  # ending where there is no exit record, cause, reason
    **dict.fromkeys(("COMPLETED", "FAILED", "REVOKED", "LAUNCH_FAILED"), (None, "", "")),
    "TIMEOUT": (Ending.MAX_TIME, "walltime", "Slurm ended the job at its time limit"),
    "DEADLINE": (Ending.MAX_TIME, "deadline", "Slurm ended the job at its deadline"),
    "PREEMPTED": (Ending.LOST, "preempted", "Slurm preempted the job"),
    "NODE_FAIL": (Ending.LOST, "node_failed", "a node of the job failed"),
    "BOOT_FAIL": (Ending.LAUNCH_FAILED, "node_failed", "a node of the job did not boot"),
    "CANCELLED": (Ending.STOPPED, "cancelled", "the job was cancelled in Slurm"),
    "OUT_OF_MEMORY": (Ending.CRASHED, "memory", "Slurm ended the job: it used more memory than it had asked for"),
}
_EXPECTED = ("COMPLETED", "REVOKED")
_FOR_EVER = later(
    r"PartitionConfig|PartitionNodeLimit|PartitionTimeLimit|DependencyNeverSatisfied|BadConstraints|AccountNotAllowed"
    r"|QOSNotAllowed|Invalid(Account|QOS)|ReservationDeleted|(QOS|Assoc|Association)\w*PerJob\w*|QOSMin\w+"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One job as Slurm reports it. `status` is a wait status: exit code * 256 + signal."""

    native: str
    word: str
    status: int = 0
    node: str = ""
    name: str = ""
    reason: str = ""
    comment: str = ""

    @property
    def state(self) -> JobState:
        """The job's state; unknown words (of a newer Slurm) count as pending."""
        if self.word in _RUNNING:
            return JobState.RUNNING
        return JobState.OVER if self.word in _OVER else JobState.PENDING

    @property
    def went_wrong(self) -> bool:
        """Whether the job's output may say why it is over."""
        return self.state is JobState.OVER and self.word not in _EXPECTED and not self.not_shared

    @property
    def hopeless(self) -> bool:
        """Whether it would wait for ever in its present state."""
        return self.state is JobState.PENDING and bool(_FOR_EVER.fullmatch(self.reason))

    @property
    def not_shared(self) -> bool:
        """Whether the node did not see the run directory."""
        blind = self.status >> 8 == NOT_SHARED_EXIT or (self.status & 127) == _NO_STDOUT_SIGNAL
        return self.word == "FAILED" and blind


def rows(text: str) -> Iterator[Row]:
    """The rows of `squeue --noheader --Format=FIELDS`; other lines are skipped."""
    for line in text.splitlines():
        cells = ["" if cell.strip() in ("(null)", "None", "N/A") else cell.strip() for cell in line.split("|", 6)]
        if len(cells) == 7 and cells[0].isdecimal():
            native, word, status, *others = cells
            yield Row(native, word, int(status) if status.isdecimal() else 0, *others)


def accounted(text: str) -> Iterator[Row]:
    """The rows of `sacct -X -n -P -o SACCT_FIELDS`; `CANCELLED by 1000` is CANCELLED, `3:0` exit code and signal."""
    for line in text.splitlines():
        cells = line.split("|", 4)
        if len(cells) == 5 and cells[0].isdecimal() and cells[1]:
            code, _, number = cells[2].partition(":")
            status = (int(code) << 8 if code.isdecimal() else 0) | (int(number) & 127 if number.isdecimal() else 0)
            yield Row(cells[0], cells[1].split()[0], status, cells[3].replace("None assigned", ""), cells[4])


def observation(job_row: Row, *, last_words: str = "") -> Observation:
    """The observation of a row. last_words: of the job's output."""
    if job_row.state is not JobState.OVER:
        hopeless = job_row.hopeless
        return Observation(job_row.state, job_row.word, job_row.reason, node=job_row.node, hopeless=hopeless)
    ending, cause, why = _OVER[job_row.word]
    code, number = job_row.status >> 8, job_row.status & 127
    if job_row.word == "DEADLINE" and not job_row.node:
        ending = Ending.LAUNCH_FAILED
    if job_row.not_shared:
        ending, cause = Ending.LAUNCH_FAILED, "not_shared"
        node = job_row.node or "its node"
        why = f"{node} does not see the run directory; records must lie on a file system that it shares"
    elif job_row.reason == "BadConstraints":
        why = "Slurm refused it: no node can serve what it asks for"
    elif job_row.word not in _EXPECTED and not why:
        why = f"the job failed with {f'exit code {code}' if code and not number else f'signal {number}'}"
    if last_words and ending in (None, Ending.LAUNCH_FAILED) and not job_row.not_shared:
        why = f"{why}: {last_words}"
    return Observation(
        JobState.OVER,
        job_row.word,
        why,
        ending=ending,
        cause=cause,
        returncode=code or None,
        outranks=ending not in (None, Ending.LAUNCH_FAILED),
        node=job_row.node,
    )


# -- failures of its commands -------------------------------------------------------------------------------------

_SILENCE = later(  # it says nothing of any job
    r"Unable to contact slurm|Socket timed out|in standby mode|Zero Bytes were transmitted|Transport endpoint"
    r"|Connection (refused|reset|timed out)|No route to host|Network is unreachable|temporarily"
    r"|Unable to establish|Could not establish a configuration source|failed to fetch config"
    r"|Error (connecting|opening)|Communication (connection|shutdown)|Header lengths|Broken pipe|Insane message length"
    r"|Database (is|not) |slurmdbd|Incompatible versions|Name or service not known|failure in name resolution",
    re.IGNORECASE,
)
_CREDENTIAL = later(r"munge|authentication|Invalid .*credential|expired", re.IGNORECASE)
_CREDENTIAL_HINT = "Slurm's credentials are refused here; `munge -n | unmunge` shows whether munged works"
def number(program: str, output: ProgramOutput) -> str:
    """The number of the submitted job; a site's own lines may surround it.

    Raises Declined for a refusal, Unreachable without a number: a job may exist, and is searched for before another
    submit.
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
    if _SILENCE.search(words):
        return Unreachable(f"{program}: {sentence(output)}")
    if _CREDENTIAL.search(words):
        return Unreachable(f"{program}: {sentence(output)}", code="unauthorized", hint=_CREDENTIAL_HINT)
    return None


def refusal(output: ProgramOutput) -> Declined:
    """The Declined of a refusal by sbatch, in its own words."""
    hint = "correct the option of the target; `sbatch --test-only` with the same options says more"
    return Declined(f"sbatch: {sentence(output)}", code="refused", hint=hint)

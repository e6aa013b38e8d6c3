"""`ray job submit`: parse a launch command for its job, and name the job so that it can be stopped.

The session's processes are only the client: the job runs under Ray's daemons and goes on when the client dies. With
`--no-wait` the client exits at once with code 0; without it, it exits with the job and fails if the job fails. After a
failure it prints the log's tail again. (ray/dashboard/modules/job/cli.py, Ray 2.60)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.shell import SimpleCommand
from autoresearch.core.text.regex import later

_SUBMIT = later(r"\bray(?:[ \t]|\\\n)+job(?:[ \t]|\\\n)+submit\b")
_ID = ("--submission-id", "--job-id")  # the second is the older name
_NAMED_BY = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")


@dataclass(frozen=True, slots=True)
class RayJob:
    """One `ray job submit`; `address` is "" if the environment sets it, `submission_id` is "" if Ray generates it."""

    address: str
    submission_id: str
    waits: bool


def find(command: str) -> RayJob | None:
    """The first job that the command submits; None if it submits none."""
    from autoresearch.core.shell import simple_commands

    for simple in simple_commands(command):
        argv = simple.argv
        if argv[1:3] == ["job", "submit"] and simple.name == "ray":
            own = argv[3 : argv.index("--") if "--" in argv else len(argv)]
            named = next((found for key in _ID if (found := _option(own, key))), "")
            return RayJob(_option(own, "--address") or _assigned(simple), named, "--no-wait" not in own)
    return None


def _assigned(simple: SimpleCommand) -> str:
    """The address in variables before the command: `RAY_ADDRESS=http://head:8265 ray job submit ...`."""
    given = dict(word.split("=", 1) for word in simple.words if word.startswith(_NAMED_BY) and "=" in word)
    return next((given[name] for name in _NAMED_BY if name in given), "")


def named(command: str, submission_id: str) -> str:
    """The command with this id for its job; unchanged if it submits no job, already sets an id, or gets none."""
    job = find(command) if submission_id else None
    if job is None or job.submission_id:
        return command
    return _SUBMIT.sub(lambda found: f"{found[0]} --submission-id {submission_id}", command, count=1)


def lint(command: str) -> tuple[Finding, ...]:
    """A job that is not waited for, or that has no id."""
    job = find(command)
    found = []
    if job and not job.waits:
        message = "ray job submit --no-wait ends at once with status 0, while the job is still to come"
        hint = "take --no-wait out: the run lasts as long as its command"
        found.append(Finding(Severity.ERROR, "ray_job_no_wait", message, hint))
    if job and not job.submission_id:
        message = "ray job submit has no --submission-id: a job that outlives its client cannot be told from others"
        found.append(Finding(Severity.WARNING, "ray_job_unnamed", message, "add --submission-id ajet_NAME"))
    return tuple(found)


def _option(words: list[str], key: str) -> str:
    for word, following in pairwise([*words, ""]):
        if word == key:
            return following
        if word.startswith(f"{key}="):
            return word[len(key) + 1 :]
    return ""

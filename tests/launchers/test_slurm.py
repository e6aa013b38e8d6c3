"""What Slurm's words mean, on texts that it printed (22.05.8), and how often it is asked; no Slurm is needed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import (
    Declined,
    DirectoryState,
    Handle,
    Job,
    JobState,
    ProgramOutput,
    Unreachable,
    Want,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.shared import MOST_SAID
from autoresearch.launchers.slurm import SlurmLauncher, cleaned
from autoresearch.launchers.slurm_job import Row, SlurmOptions, accounted, observation, refusal, rows, silence


class Scripted:
    """A Reach whose programs answer as a test says; it counts who is asked."""

    shared = True

    def __init__(self, **answers: Callable[[Sequence[str]], ProgramOutput] | ProgramOutput) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        self.asked.append(list(argv))
        answer = self.answers.get(argv[0], ProgramOutput(1, b"", b"No such file"))
        return answer if isinstance(answer, ProgramOutput) else answer(argv)

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`: every directory is there."""
        return {want.run: DirectoryState() for want in wants}

    def put(self, directory: str, files: Any, *, private: Any = ()) -> None:
        """See `Reach`: it is not kept."""

    def count(self, program: str) -> int:
        return sum(words[0] == program for words in self.asked)


def desk(reach: Any, **options: Any) -> SlurmLauncher:
    return SlurmLauncher(Target("slurm", Kind.SLURM, 4, options), {}, reach=reach)


def options(**given: Any) -> SlurmOptions:
    return desk(Scripted(), **given).options


def job(**more: Any) -> Job:
    usual: dict[str, Any] = {
        "run": "try-abc123",
        "name": "ajet_try_abc123",
        "campaign": "my camp|1",
        "directory": "/shared/far 100%",
        "argv": ("/usr/bin/python3", "-S", "/shared/runner", "/shared/far 100%"),
        "cwd": "/shared",
        "max_s": 600.0,
        "grace_s": 5.0,
    }
    return Job(**{**usual, **more})


def queue(*lines: str) -> ProgramOutput:
    return ProgramOutput(0, "".join(f"{line}\n" for line in lines).encode())


# -- words -------------------------------------------------------------------------------------------------------

OVER = [
    ("COMPLETED", 0, "None", None, "", False),
    ("FAILED", 3 << 8, "NonZeroExitCode", None, "", False),
    ("FAILED", 9, "JobLaunchFailure", None, "", False),
    ("FAILED", 66 << 8, "NonZeroExitCode", Ending.LAUNCH_FAILED, "not_shared", False),
    ("FAILED", 4021, "JobLaunchFailure", Ending.LAUNCH_FAILED, "not_shared", False),
    ("TIMEOUT", 15, "TimeLimit", Ending.MAX_TIME, "walltime", True),
    ("PREEMPTED", 15, "None", Ending.LOST, "preempted", True),
    ("NODE_FAIL", 0, "NodeDown", Ending.LOST, "node_failed", True),
    ("CANCELLED", 15, "None", Ending.STOPPED, "cancelled", True),
    ("OUT_OF_MEMORY", 125, "OutOfMemory", Ending.CRASHED, "memory", True),
    ("BOOT_FAIL", 0, "NodeDown", Ending.LAUNCH_FAILED, "node_failed", False),
    ("DEADLINE", 0, "DeadLine", Ending.MAX_TIME, "deadline", True),
]


@pytest.mark.parametrize(("word", "status", "reason", "ending", "cause", "outranks"), OVER)
def test_how_a_job_ended(
    word: str, status: int, reason: str, ending: Ending | None, cause: str, outranks: bool
) -> None:
    (row,) = rows(f"7|{word}|{status}|n1|ajet_x|{reason}|autoresearch:c:r")
    said = observation(row)
    assert said.state is JobState.OVER
    assert (said.ending, said.cause, said.outranks) == (ending, cause, outranks)


def test_a_deadline_that_passed_in_the_queue_started_nothing() -> None:
    assert observation(Row("7", "DEADLINE")).ending is Ending.LAUNCH_FAILED


def test_a_comment_may_hold_anything_and_lines_that_are_no_row_are_passed_over() -> None:
    (row,) = rows("slurm_load_jobs: hint\n12_3|RUNNING|0|n1|x|None|c\n7|RUNNING|0|n[1-2]|ajet_x|None|a|b|c\n")
    assert (row.native, row.node, row.reason, row.comment) == ("7", "n[1-2]", "", "a|b|c")


def test_rows_of_accounting() -> None:
    text = "1|FAILED|4:0|n[1-2]|wrap\n2|CANCELLED by 0|0:15|None assigned|wrap\n"
    text += "3|OUT_OF_MEMORY|0:125|n1|x\n1.batch|FAILED|4:0|n1|b\n"
    found = list(accounted(text))
    assert [(r.native, r.word, r.status, r.node) for r in found] == [
        ("1", "FAILED", 4 << 8, "n[1-2]"),
        ("2", "CANCELLED", 15, ""),
        ("3", "OUT_OF_MEMORY", 125, "n1"),
    ]


FOR_EVER = ["PartitionNodeLimit", "PartitionTimeLimit", "DependencyNeverSatisfied", "BadConstraints"]
FOR_EVER += ["AccountNotAllowed", "InvalidAccount", "InvalidQOS", "QOSMaxWallDurationPerJobLimit", "AssocMaxGRESPerJob"]
FOR_NOW = ["Resources", "Priority", "Dependency", "JobHeldUser", "BeginTime", "QOSMaxJobsPerUserLimit", "PartitionDown"]
FOR_NOW += ["AssocGrpGRES", "ReqNodeNotAvail, UnavailableNodes:n1", "Licenses", "", "QOSGrpCpuLimit", "NodeDown"]


LIVES = {
    JobState.RUNNING: ["RUNNING", "COMPLETING"],
    JobState.PENDING: ["PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "A_NEW_WORD"],
}


def test_words_that_end_nothing_and_what_waits_for_ever() -> None:
    assert {state: [word for word in words if Row("7", word).state is state] for state, words in LIVES.items()} == LIVES
    hopeless = [reason for reason in FOR_EVER + FOR_NOW if Row("7", "PENDING", reason=reason).hopeless]
    assert hopeless == FOR_EVER
    said = observation(Row("7", "PENDING", reason="PartitionTimeLimit"))
    assert said.hopeless and said.reason == "PartitionTimeLimit"


# -- silence and refusals ------------------------------------------------------------------------------------------

SILENCE = [
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
    "slurm_load_jobs error: Slurm backup controller in standby mode",
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying.",
    "sbatch: fatal: Could not establish a configuration source",
    "sbatch: error: Batch job submission failed: Transport endpoint is not connected",
]


@pytest.mark.parametrize("words", SILENCE)
def test_silence_is_no_refusal(words: str) -> None:
    assert silence("sbatch", ProgramOutput(1, b"", words.encode()))
    with pytest.raises(Unreachable):
        desk(Scripted(sbatch=ProgramOutput(1, b"", words.encode()))).submit(job())


def test_credentials_that_are_refused_are_silence_with_a_hint() -> None:
    said = ProgramOutput(1, b"", b"slurm_load_jobs error: Protocol authentication error")
    found = silence("squeue", said)
    assert found and found.code == "unauthorized" and "munge" in found.hint


FAILED = "sbatch: error: Batch job submission failed: "
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
REFUSED = [
    f"sbatch: error: invalid partition specified: x\n{FAILED}Invalid partition name specified",
    f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}{POLICY}",
    f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
    "sbatch: unrecognized option '--partitoin=x'\nTry \"sbatch --help\" for more information",
]


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_keeps_slurms_sentence(words: str) -> None:
    said = ProgramOutput(1, b"", words.encode())
    assert silence("sbatch", said) is None
    no = refusal(said)
    assert no.code == "refused" and no.hint
    assert words.splitlines()[0].rpartition(": ")[2] in no.reason and "error:" not in no.reason
    with pytest.raises(Declined):
        desk(Scripted(sbatch=said)).submit(job())


@pytest.mark.parametrize("words", [b"", b"sbatch: job accepted\n"])
def test_an_answer_without_a_number_is_no_handle_and_no_refusal(words: bytes) -> None:
    """sbatch said yes: the job is there, and a run that were called failed would leave it alone."""
    with pytest.raises(Unreachable):
        desk(Scripted(sbatch=ProgramOutput(0, words, b""))).submit(job())


@pytest.mark.parametrize("words", [b"17\n", b"Project x has 3 h left\n17;ajet\n", b"17\n12 jobs of yours\n\n"])
def test_what_a_site_prints_around_the_number(words: bytes) -> None:
    assert desk(Scripted(sbatch=ProgramOutput(0, words, b""))).submit(job()).native == "17"


# -- asking ----------------------------------------------------------------------------------------------------------


def test_one_squeue_however_many_runs() -> None:
    count = 1000
    lines = [f"{n}|RUNNING|0|n1|ajet_{n}|None|autoresearch:c:r{n}" for n in range(1, count + 1)]
    reach = Scripted(squeue=queue(*lines))
    said = desk(reach).poll([Handle(f"r{n}", str(n)) for n in range(1, count + 1)])
    assert len(said) == count and len(reach.asked) == 1


def test_a_queue_that_was_cut_says_nothing_of_the_jobs_behind_the_cut() -> None:
    line = "7|PENDING|0||ajet_x|Priority|autoresearch:c:r\n"
    said = ProgramOutput(0, (line * (MOST_SAID // len(line) + 1)).encode()[:MOST_SAID])
    with pytest.raises(Unreachable, match="longer than"):
        desk(Scripted(squeue=said)).poll([Handle("r", "8")])


def test_those_that_are_gone_cost_one_call_more() -> None:
    reach = Scripted(squeue=queue(), sacct=ProgramOutput(1, b"", b"Slurm accounting storage is disabled"))
    assert desk(reach).poll([Handle(f"r{n}", str(n)) for n in range(1000)]) == {}
    assert (reach.count("sacct"), len(reach.asked)) == (1, 2)


def test_accounting_knows_what_the_queue_forgot() -> None:
    reach = Scripted(squeue=queue(), sacct=ProgramOutput(0, b"7|NODE_FAIL|1:0|n1|x\n"))
    said = desk(reach).poll([Handle("r", "7"), Handle("s", "8")])
    assert said["r"].cause == "node_failed" and "s" not in said


def test_a_number_that_is_another_job_now() -> None:
    reach = Scripted(squeue=queue("7|RUNNING|0|n1|x|None|autoresearch:c:other", "8|RUNNING|0|n1|x|None|"))
    assert set(desk(reach).poll([Handle("mine", "7"), Handle("old", "8")])) == {"old"}


def test_a_job_whose_comment_a_site_has_changed_is_known_by_its_name() -> None:
    """Else it would be lost after a minute in the queue, and begin when nobody looks any more."""
    reach = Scripted(
        sbatch=ProgramOutput(0, b"7\n"), squeue=queue('7|PENDING|0||ajet_try_abc123|Priority|{"cost": "x"}')
    )
    launcher = desk(reach, comment="x")
    handle = launcher.submit(job())
    assert launcher.poll([handle])[handle.run].state is JobState.PENDING
    assert launcher.submit(job(again=True)) == handle and reach.count("sbatch") == 1
    other = Handle("other-abc123", "7", {"name": "ajet_other_abc123"})
    assert launcher.poll([other]) == {}, "a number that is another job now"


# -- what is submitted -----------------------------------------------------------------------------------------------


def test_the_command_line() -> None:
    reach = Scripted(sbatch=ProgramOutput(0, b"17;ajet\n"))
    own = {"partition": "batch", "exclusive": True, "exclude": ["n1", "n2"], "mem_per_cpu": "4G", "overcommit": False}
    handle = desk(reach, cluster="ajet", dependency="afterok:3", poll="5s", **own).submit(job(gpus=2))
    (words,) = reach.asked
    assert handle.native == "17"
    assert words[:3] == ["sbatch", "--parsable", "--clusters=ajet"]
    assert {"--job-name=ajet_try_abc123", "--comment=autoresearch:my_camp_1:try-abc123", "--no-requeue"} <= set(words)
    assert {"--partition=batch", "--exclusive", "--exclude=n1,n2", "--mem-per-cpu=4G"} <= set(words)
    assert {"--gres=gpu:2", "--dependency=singleton,afterok:3"} <= set(words)
    assert not any("poll" in word or "overcommit" in word for word in words)
    assert {"--time=18", "--signal=B:USR1@120", "--open-mode=append", "--output=/shared/far 100%%/slurm.out"} <= set(
        words
    )


def test_the_command_of_a_launch_script_is_one_shell_command_wherever_it_lies() -> None:
    reach = Scripted(env=ProgramOutput(0, b"17\n"))
    desk(reach, script="ray.sub").submit(job())
    command = next(word for word in reach.asked[0] if word.startswith("COMMAND=")).removeprefix("COMMAND=")
    assert shlex.split(command) == ["exec", "bash", "/shared/far 100%/slurm.sh"]


def test_a_cap_on_the_walltime_and_a_place_that_says_which_gpus() -> None:
    assert options(time="10m").minutes(600.0) == 10 and options(time="10h").minutes(600.0) == 18
    assert options(gpus_per_node="h100:8", nodes=2).resource_words(8) == ["--gpus-per-node=h100:8", "--nodes=2"]


def test_what_tells_of_another_allocation_is_cleared() -> None:
    given = {"SLURM_JOB_ID": "1", "SBATCH_QOS": "x", "SRUN_X": "1", "SLURMD_NODENAME": "n", "RANK": "0", "PATH": "/bin"}
    kept = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_JWT": "t", "PATH": "/bin", "RANKS": "2"}
    assert cleaned({**given, **kept}) == kept


@pytest.mark.system
def test_the_script_waits_for_its_directory_and_says_that_it_is_not_there(tmp_path: Path) -> None:
    text = options().batch_script(job(directory=str(tmp_path / "gone")), pause_s=0.0)
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True)
    assert done.returncode == 66 and "does not see" in done.stdout


@pytest.mark.system
def test_the_script_becomes_what_it_starts(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("{}")
    (tmp_path / "environment").write_bytes(b"A=1\0M=old\0N=x\ny")
    place = options(setup=["export M='new\nline'"], environment={"B": "it's"})
    given = job(directory=str(tmp_path), argv=("bash", "-c", "echo $$ $RUN"), environment={"RUN": "r 1"})
    words = ["env", "SLURM_JOB_ID=7", "bash", "-c", 'echo $$; exec bash "$0"', tmp_path / "job.sh"]
    (tmp_path / "job.sh").write_text(place.batch_script(given, pause_s=0.0))
    done = subprocess.run(words, capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert second == f"{first} r 1", "what Slurm signals is the Runner"
    pairs = (tmp_path / "environment").read_text().split("\0")
    told = dict(pair.split("=", 1) for pair in pairs)
    assert told == {"A": "1", "M": "new\nline", "N": "x\ny", "B": "it's"}, "what Slurm set, the Runner adds"


def test_every_question_names_the_cluster() -> None:
    reach = Scripted(sbatch=ProgramOutput(0), sacct=queue(), squeue=queue())
    launcher = desk(reach, cluster="ajet")
    launcher.preflight()
    launcher.poll([Handle("r", "7")])
    words = [one for one in reach.asked if "--version" not in one]
    assert [one[0] for one in words] == ["sbatch", "squeue", "sacct"]
    assert all("--clusters=ajet" in one for one in words)

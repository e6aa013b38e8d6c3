"""The evidence of several processes: pointers before line order, chains, notices from outside, and the digest."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.evidence import Search, classify
from autoresearch.core.diagnosis.failure import Failure, LogPosition
from autoresearch.core.diagnosis.failure_kinds import FailureKind
from autoresearch.core.diagnosis.processes import LogProcess, pointers, split
from autoresearch.core.diagnosis.tracebacks import frame
from autoresearch.readers.log_end import MOST_LINES, digest

HEAD = "Traceback (most recent call last):"
ACTOR_DIED = [
    HEAD,
    '  File "/w/verl/trainer/main_ppo.py", line 49, in run_ppo',
    "    ray.get(runner.run.remote(config))",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "\tclass_name: WorkerDict",
    "\tpid: 20174",
]


def raised(exception: str, path: str = "/w/train.py", label: str = "") -> list[str]:
    return [label + line for line in (HEAD, f'  File "{path}", line 7, in f', "    g()", exception)]


def searched(lines: list[str], steps_after: int = 0) -> Search:
    search = Search()
    for number, line in enumerate(lines, 1):
        search.look(line, LogPosition(number))
    for step in range(steps_after):
        search.step(f"step {step}")
    return search


@pytest.mark.parametrize("order", [1, -1])
def test_a_symptom_names_the_process_whose_last_exception_is_the_cause(order: int) -> None:
    others = raised("KeyError: 'cosmetic'", label="(WorkerDict pid=20175) ")
    dead = raised("ValueError: tool.json is empty", label="(WorkerDict pid=20174) ")
    parts = [ACTOR_DIED, others, dead][::order]
    found = classify([line for part in parts for line in part])
    assert found is not None
    assert (found.line, found.process) == ("ValueError: tool.json is empty", "WorkerDict pid=20174")


def test_torchruns_table_names_the_rank() -> None:
    lines = raised("RuntimeError: aborted by the others", label="[rank0]: ")
    lines += raised("IndexError: list index out of range", label="[rank3]: ")
    table = ["Root Cause (first observed failure):", "  rank      : 3 (local_rank: 3)", "  exitcode  : 1 (pid: 9)"]
    found = classify([*lines, *table])
    assert found is not None and found.line.startswith("IndexError")
    found = classify(lines)
    assert found is not None and found.line.startswith("RuntimeError")  # nothing says better than their order


def test_what_is_nested_in_a_report() -> None:
    ray = [*raised("ray.exceptions.RayTaskError(KeyError): ray::W.f() (pid=5, ip=1.1.1.1, actor_id=a)", "/w/main.py")]
    ray += ['  File "/w/rewards/math.py", line 42, in compute_score', "    x[k]", "KeyError: 'answer'"]
    found = classify(ray)
    assert found is not None
    assert (found.line, str(found.frame)) == ("KeyError: 'answer'", "/w/rewards/math.py:42 in compute_score")
    assert (found.exception, found.where.endswith("(a reward function)")) == ("KeyError", True)
    loader = [*raised("KeyError: Caught KeyError in DataLoader worker process 0."), "Original " + HEAD]
    loader += ['  File "/w/coco.py", line 9, in __getitem__', "    x", "KeyError: 0"]
    found = classify(loader)
    assert found is not None and found.line == "KeyError: 0"
    dynamo = [*raised("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"), "RuntimeError: too old"]
    found = classify(dynamo)
    assert found is not None and found.line == "RuntimeError: too old"


def test_a_traceback_without_its_head_or_its_indentation() -> None:
    found = classify(['  File "/w/a.py", line 3, in f', "    g()", "ValueError: x"])
    assert found is not None and found.frame is not None
    flat = [HEAD]
    for name in "abcdefgh":
        flat += [f'File "/w/{name}.py", line 3, in f', "return fn(*args, **kwargs)", "values = worker.get(refs)"]
    found = classify([*flat, "KeyError: 'row'"])
    assert found is not None and found.line == "KeyError: 'row'" and found.frame is not None


def test_nothing_seen_is_deleted() -> None:
    lines = [*raised("ImportError: flash_attn is not there", "/w/a.py"), *raised("ValueError: bad", "/w/b.py")]
    assert [failure.kind.value for failure in searched(lines).failures()] == ["python_error", "import_error"]


def test_steps_overcome_exceptions_and_no_kill() -> None:
    killed = "slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"
    search = searched([killed, *raised("ValueError: bad")], steps_after=5)
    assert [failure.kind.value for failure in search.failures()] == ["slurm_time_limit"]
    assert [failure.kind.value for failure in search.overcome()] == ["python_error"]


def test_a_program_that_prints_errors_of_what_it_goes_on_from() -> None:
    assert classify(["Error: <answer> tag not found"] * 177) is None


@pytest.mark.parametrize(
    ("raw", "process", "text"),
    [
        ("\x1b[36m(WorkerDict pid=5, ip=1.2.3.4)\x1b[0m   x", LogProcess("WorkerDict", 5), "  x"),
        ("(Server pid=1) (EngineCore_DP0 pid=2) ERROR x", LogProcess("EngineCore_DP0", 2), "ERROR x"),
        ("(Worker[rank=0] pid=7) x", LogProcess("Worker", 7), "x"),
        ("[rank3]: x", LogProcess(rank=3), "x"),
        ("[default3]:x", LogProcess(rank=3), "x"),
        ("12: x", LogProcess(rank=12), "x"),
        ("2025-07-03T14:20:51.565839352Z (A pid=5)   x", LogProcess("A", 5), "  x"),
        ("see (pid=7)", LogProcess(), "see (pid=7)"),
        ("plain", LogProcess(), "plain"),
    ],
)
def test_split(raw: str, process: LogProcess, text: str) -> None:
    assert split(raw) == (process, text)


@pytest.mark.parametrize(
    ("line", "pids"),
    [
        ("ray.exceptions.RayTaskError(X): ray::A.f() (pid=4237, ip=10.1.1.1, actor_id=7)", [4237]),
        ("A worker died ... Worker port: 10074 Worker PID: 27499 Worker exit type: SYSTEM_ERROR", [27499]),
        ("RuntimeError: DataLoader worker (pid(s) 11, 12) exited unexpectedly", [11, 12]),
        ("failed (exitcode: 1) local_rank: 0 (pid: 24024) of binary: /bin/python", [24024]),
        ("started worker with pid=7", []),
    ],
)
def test_pointers(line: str, pids: list[int]) -> None:
    assert [process.pid for process in pointers(line)] == pids


@pytest.mark.parametrize(
    ("line", "own", "role"),
    [
        ('  File "/w/rewards/math.py", line 4, in grade', True, "a reward function"),
        ('  File "/w/RL-Factory/lib/base.py", line 4, in func', True, ""),
        ('  File "/v/lib/python3.11/site-packages/torch/nn/m.py", line 4, in forward', False, "the model"),
        ('  File "train.py", line 4, in <module>', True, "the training script"),
        ("│ /w/data/collate.py:12 in pad                │", True, "the data"),
    ],
)
def test_frames(line: str, own: bool, role: str) -> None:
    at = frame(line)
    assert at is not None
    assert (at.is_own, at.role) == (own, role)


def test_digest() -> None:
    same = [Failure(FailureKind.PYTHON_ERROR, "KeyError: 'x'", process=f"rank {rank}") for rank in range(8)]
    other, notice = Failure(FailureKind.DIVERGED, "other"), Failure(FailureKind.HOST_OOM, "Killed")
    lines = digest([*same, other], [notice], "step 3", 3)
    assert lines[0] == "last step of 3: step 3"
    assert lines[1].endswith("Killed")
    assert lines[2] == "first exception of rank 0, and 7 more: KeyError: 'x'"
    assert len(lines) == 4
    many = [Failure(FailureKind.DIVERGED, f"E{n}: x", process=f"rank {n}") for n in range(500)]
    assert len(digest(many, many, "", 0)) <= MOST_LINES

"""The root cause among several failures: chains, processes and pointers, steps that follow, what is no failure."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.failure import Failure, FailureFamily, LogPosition, killed_from_outside, with_the_end
from autoresearch.core.diagnosis.log_lines import LogProcess, frame, pointers, split
from autoresearch.core.diagnosis.root import MAX_TRACEBACK, STORM, Search, classify, last_traceback
from autoresearch.core.run.ending import Ending
from autoresearch.readers.log_end import MOST_LINES, digest

HEAD = "Traceback (most recent call last):"
FRAME = '  File "train.py", line 5, in main'
DURING = "During handling of the above exception, another exception occurred:"
OOM = "CUDA out of memory. Tried to allocate 1 GiB"
REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused"
ENGINE = "EngineDeadError: EngineCore encountered an issue"


def chain(*finals: str, label: str = "") -> list[str]:
    return [label + line for final in finals for line in (HEAD, FRAME, "    go()", final)]


def search(*lines: str) -> Search:
    """A search that was shown these lines; `step N` is a training step, `step N nan` one with a NaN."""
    found = Search()
    for number, line in enumerate(lines, 1):
        if line.startswith("step "):
            found.step(line)
            if line.endswith("nan"):
                found.nan(line, LogPosition(number))
        else:
            found.look(line, LogPosition(number))
    return found


def families(*lines: str) -> list[str]:
    return [failure.family.value for failure in search(*lines).failures()]


def root(*lines: str) -> str:
    """The line of the root; "" for none."""
    found = classify(lines)
    return found.line if found else ""


ROOTS = {
    "a proof before signs": ["ray.exceptions.ActorDiedError: The actor died unexpectedly", f"E: {OOM}", ENGINE],
    "a proof before NaN": ["grad_norm is not finite: nan", OOM],
    "NaN before signs": ["grad_norm is not finite: nan", "Watchdog caught collective operation timeout: x"],
    "a sign before what it brings down": ["Watchdog caught collective operation timeout", *chain("RuntimeError: x")],
    "an exception before the signs it brings": [*chain("ValueError: bad"), "DistBackendError: NCCL error in: x"],
    "the last traceback": [*chain("ImportError: flash_attn, caught"), "going on", *chain("ValueError: bad")],
    "the child, not its parents": [
        *chain("ModuleNotFoundError: No module named 'bad'"),
        *chain("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        *chain("subprocess.CalledProcessError: Command x returned non-zero exit status 1."),
    ],
    "no interruption": [*chain("ValueError: bad"), *chain("KeyboardInterrupt")],
    "what hydra says before all that a job raises": [
        "Error executing job with overrides: ['x=1']",
        *chain("FileNotFoundError: bad"),
    ],
    "the first of a chain": [*chain("FileNotFoundError: bad"), DURING, *chain("RuntimeError: cannot load")],
    "the later of a chain, if the first says nothing": [*chain("KeyError: 1"), DURING, *chain("ValueError: bad")],
    "not what Python ignores": [*chain("ImportError: bad"), "9it/s]Exception ignored in: <f>", *chain("TypeError: x")],
    "not what a logger reports of itself": [
        "ValueError: bad",
        "3it/s]--- Logging error ---",
        *chain("TypeError: not all arguments converted"),
        "Call stack:",
        FRAME,
        "Message: 'x'",
    ],
    "what() after terminate": [
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        "  what():  [enforce fail at pair.cc:498] bad. SO_ERROR: Connection refused",
        "mpirun noticed that process rank 1 with PID 67256 on node n exited on signal 6 (Aborted).",
    ],
    "the last launch of three": [
        "t.py: error: argument --type: invalid choice: 'x'",
        "t.py: error: argument --fp16: bad",
        "t.py: error: argument --fp16: bad",
    ],
    "the engine's own words": [
        "ERROR 08-22 07:20:11 [core.py:708] EngineCore failed to start.",
        *chain("ValueError: bad", label="ERROR 08-22 07:20:11 [core.py:708] "),
        *chain("RuntimeError: Engine core initialization failed. See root cause above."),
    ],
    "an exception behind srun's and torch's labels": [
        " 2: [rank2]:   File '/v/x.py', line 46, in call",
        '15: [rank15]:   File "/v/site-packages/megatron/b.py", line 110, in layers',
        "15: [rank15]: AssertionError: bad, should be divisible by 4",
        " 2: [rank2]:     ^^^^",
    ],
    "the engine, not who is refused after": [ENGINE.replace("issue", "issue bad"), *chain(REFUSED)],
}
WORDS = {"a proof before signs": "out of memory", "a proof before NaN": "out of memory", "NaN before signs": "finite"}
WORDS |= {"a sign before what it brings down": "Watchdog", "no interruption": "bad"}


@pytest.mark.parametrize("name", ROOTS)
def test_the_root(name: str) -> None:
    assert WORDS.get(name, "bad") in root(*ROOTS[name])


@pytest.mark.parametrize("order", [1, -1])
def test_a_sign_names_the_process_whose_last_exception_is_the_cause(order: int) -> None:
    died = [*chain("ray.exceptions.ActorDiedError: The actor died unexpectedly"), "\tpid: 20174"]
    others = chain("KeyError: 'cosmetic'", label="(WorkerDict pid=20175) ")
    dead = chain("ValueError: tool.json is empty", label="(WorkerDict pid=20174) ")
    found = classify([line for part in [died, others, dead][::order] for line in part])
    assert found is not None
    assert (found.line, found.process) == ("ValueError: tool.json is empty", "WorkerDict pid=20174")
    ranks = chain("RuntimeError: aborted", label="[rank0]: ") + chain("IndexError: x", label="[rank3]: ")
    table = ["Root Cause (first observed failure):", "  rank      : 3 (local_rank: 3)", "  exitcode  : 1 (pid: 9)"]
    assert root(*ranks, *table).startswith("IndexError")
    assert root(*ranks).startswith("RuntimeError")  # nothing says better than their order


def test_what_is_nested_in_a_report() -> None:
    ray = [*chain("ray.exceptions.RayTaskError(KeyError): ray::W.f() (pid=5, ip=1.1.1.1, actor_id=a)")]
    ray += ['  File "/w/rewards/math.py", line 42, in compute_score', "    x[k]", "KeyError: 'answer'"]
    found = classify(ray)
    assert found is not None
    assert (found.line, str(found.frame)) == ("KeyError: 'answer'", "/w/rewards/math.py:42 in compute_score")
    assert (found.exception, found.where.endswith("(a reward function)")) == ("KeyError", True)
    loader = [*chain("KeyError: Caught KeyError in DataLoader worker process 0."), "Original " + HEAD]
    assert root(*loader, FRAME, "    x", "KeyError: 0") == "KeyError: 0"
    dynamo = chain("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:")
    assert root(*dynamo, "RuntimeError: too old") == "RuntimeError: too old"


@pytest.mark.parametrize(
    "lines",
    [
        [FRAME, "    g()", "ValueError: x"],
        [HEAD, *[FRAME.strip(), "return fn(*args)", "values = worker.get(refs)"] * 8, "ValueError: x"],
        [f"[default0]:{text}" for text in chain("ValueError: x")],
        ["[2026-08-22 07:31:05 TP0] Scheduler hit an exception: " + HEAD, FRAME, "ValueError: x"],
        [f"    | {text}" for text in chain("ValueError: x")],
        ["ERROR:root:ValueError: x"],
        ["╭──── Traceback (most recent call last) ────╮", "│ x │", "ValueError: x"],
        [f"Aug 17 18:42:1{n} vllm vllm[80{n}]: (A pid=7) {text}" for n, text in enumerate(chain("ValueError: x"))],
        [f"gpu-worker-{n}: {text}" for n, text in enumerate(chain("ValueError: x")[1:])],
        ["EngineCore hit an exception: " + HEAD, FRAME, "ValueError: x"],
        [f" 30%|███       | 3/10 [00:03<00:07,  1.03s/it]{HEAD}", FRAME, "ValueError: x"],
    ],
)
def test_what_stands_before_an_exception_or_is_missing(lines: list[str]) -> None:
    assert root(*lines) == "ValueError: x"


def test_certain_only_with_two_signs_and_without_contradiction() -> None:
    def certain(*lines: str) -> bool:
        found = classify(lines)
        return found is not None and found.certain

    assert certain(*chain("KeyError: 'x'"))  # its type, and who raised it
    assert certain("ModuleNotFoundError: No module named 'verl'") and certain(OOM)
    assert not certain(*chain("RuntimeError: x")) and not certain("KeyError: 'x'")
    assert not certain(ENGINE) and not certain("AssertionError")
    full = "OSError: [Errno 28] No space left on device"
    assert not certain(f"torch.OutOfMemoryError: {OOM}", full)  # one of the two, and which is not known
    assert not certain(*chain("KeyError: 'x'"), DURING, *chain("ImportError: no cache"))  # nor which of a chain


def test_what_two_steps_followed_was_overcome() -> None:
    assert families(OOM, "step 1") == ["gpu_memory"]  # Ray may bring one late
    assert families(OOM, "step 1", "step 1") == ["gpu_memory"]  # `ray job submit` prints the log's end again
    assert families(OOM, "step 1", "step 2") == []
    assert [f.family.value for f in search(OOM, "step 1", "step 2").overcome()] == ["gpu_memory"]
    said = [line for n in range(4) for line in (*chain("KeyError: 'answer'"), f"step {n}")]
    assert families(*said) == []
    assert root(*said, *chain("ValueError: new")) == "ValueError: new"
    killed = "slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"
    assert families(killed, "step 1", "step 2", "step 3") == ["cancelled"]


def test_nan_is_overcome_by_one_step_and_told_where_it_began() -> None:
    assert families("step 1 nan", "step 2") == []
    found = search("step 1 nan", "step 2", "step 3", "step 4 nan", "step 5 nan", "step 6 nan").failures()
    assert [(f.family.value, f.position.number) for f in found] == [("diverged", 4)]


def test_equal_ones_are_counted_and_a_storm_is_said() -> None:
    found = classify(["fine", OOM, OOM])
    assert found is not None and (found.position.number, found.times) == (2, 2)
    storm = classify([line for n in range(STORM) for line in chain(f"KeyError: '{n}'")])
    assert storm is not None and (storm.times, storm.note) == (STORM, f"the same traceback {STORM} times")
    ranks = classify([line for n in range(8) for line in chain("KeyError: 'lr'", label=f"[rank{n}]: ")])
    assert ranks is not None and ranks.note == ""  # every rank prints it once


def test_no_failure() -> None:
    assert families(*["Error: <answer> tag not found"] * 177) == []  # it goes on from them
    assert families("3it/s]Exception ignored in: <function f>", *chain("TypeError: None")) == []
    quote = ["[prompt] x", "[response] look:", *chain("ModuleNotFoundError: No module named 'verl'"), OOM, "[score] 0"]
    assert families(*quote) == []
    assert families(*quote, OOM) == ["gpu_memory"]
    prefixed = [f"(TaskRunner pid=1) {line}" for line in quote[:-1]]
    assert families(*prefixed[:3], f"(WorkerDict pid=2) {OOM}", *prefixed[3:]) == ["gpu_memory"]  # it quotes nothing
    endless = search(*quote[:-1])
    endless.look(OOM, LogPosition(99, 1 << 20))
    assert endless.failures()


@pytest.mark.parametrize(
    ("raw", "process", "text"),
    [
        ("\x1b[36m(WorkerDict pid=5, ip=1.2.3.4)\x1b[0m   x", LogProcess("WorkerDict", 5), "  x"),
        ("(Server pid=1) (EngineCore_DP0 pid=2) ERROR x", LogProcess("EngineCore_DP0", 2), "ERROR x"),
        ("(Worker[rank=0] pid=7) x", LogProcess("Worker", 7), "x"),
        ("[rank3]: x", LogProcess(rank=3), "x"),
        ("[default3]:x", LogProcess(rank=3), "x"),
        ("12: x", LogProcess(rank=12), "x"),
        (" 2: [rank2]:   x", LogProcess(rank=2), "  x"),
        ("2025-07-03T14:20:51.565839352Z (A pid=5)   x", LogProcess("A", 5), "  x"),
        ("see (pid=7)", LogProcess(), "see (pid=7)"),
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
        ("│ /w/data/collate.py:12 in pad                │", True, "the data"),
    ],
)
def test_frames(line: str, own: bool, role: str) -> None:
    at = frame(line)
    assert at is not None
    assert (at.is_own, at.role) == (own, role)


def test_the_last_traceback() -> None:
    lines = [*chain("OldError: x"), "between", *chain("KeyError: 'a'"), DURING, *chain("ValueError: bad"), "bye"]
    assert last_traceback(lines).splitlines() == [*chain("KeyError: 'a'"), DURING, *chain("ValueError: bad")]
    labelled = ["x", *chain("ValueError: bad", label="\x1b[36m(TaskRunner pid=5)\x1b[0m "), "after", "more"]
    assert last_traceback(labelled).splitlines() == chain("ValueError: bad")
    assert last_traceback([*lines, *chain("ValueError: parse")], ("parse",)).endswith("ValueError: bad")
    assert last_traceback([HEAD, FRAME]) == last_traceback([]) == ""
    long = last_traceback([HEAD, *([FRAME] * 300), "RecursionError: too deep"]).splitlines()
    assert (len(long), long[0], long[-1]) == (MAX_TRACEBACK + 1, HEAD, "RecursionError: too deep")


def test_digest() -> None:
    same = [Failure(FailureFamily.CODE, "KeyError: 'x'", process=f"rank {rank}") for rank in range(8)]
    other, notice = Failure(FailureFamily.DIVERGED, "other"), Failure(FailureFamily.HOST_MEMORY, "Killed")
    lines = digest([*same, other], [notice], "step 3", 3)
    assert lines[0] == "last step of 3: step 3"
    assert lines[1].endswith("Killed")
    assert lines[2] == "first exception of rank 0, and 7 more: KeyError: 'x'"
    assert len(lines) == 4
    many = [Failure(FailureFamily.DIVERGED, f"E{n}: x", process=f"rank {n}") for n in range(500)]
    assert len(digest(many, many, "", 0)) <= MOST_LINES == 40


@pytest.mark.parametrize(
    ("ending", "cause", "returncode", "killed"),
    [
        (Ending.CRASHED, "signal", 143, True),
        (Ending.CRASHED, "exit_code", 1, False),
        (Ending.CRASHED, "signal", 139, False),  # a segmentation fault is its own
        (Ending.LOST, "runner_died", None, True),
        (Ending.STOPPED, "sigterm", 143, True),
        (Ending.STOPPED, "stop_request", 143, False),  # somebody asked
        (Ending.MAX_TIME, "max_time", 143, False),  # that was us
        (Ending.FINISHED, "", 0, False),
    ],
)
def test_killed_from_outside(ending: Ending, cause: str, returncode: int | None, killed: bool) -> None:
    assert killed_from_outside(ending, cause, returncode) is killed


KILLS = "the command, line 1: python -m ajet.launcher --autokill"
PROVED = Failure(FailureFamily.GPU_MEMORY, "CUDA out of memory")
VAGUE = Failure(FailureFamily.UNKNOWN, "SystemExit: 143", certain=False)
DEAD = Failure(FailureFamily.COMMUNICATION, ENGINE, certain=False)
CTRL_C = Failure(FailureFamily.UNKNOWN, "KeyboardInterrupt", certain=False)


@pytest.mark.parametrize(
    ("found", "ending", "killed", "kills", "family"),
    [
        (None, Ending.CRASHED, True, KILLS, "cancelled"),
        (VAGUE, Ending.CRASHED, True, KILLS, "cancelled"),
        (PROVED, Ending.CRASHED, True, KILLS, "gpu_memory"),
        (None, Ending.CRASHED, True, "", None),  # killed, but nothing of the run kills by name
        (VAGUE, Ending.CRASHED, False, KILLS, "unknown"),  # it ended before the command killed anything
        (DEAD, Ending.LOST, True, "", None),  # an engine goes with its Runner
        (None, Ending.STALLED, False, "", "hang"),
        (PROVED, Ending.STALLED, False, "", "gpu_memory"),
        (None, Ending.FIRST_STEP_TIMEOUT, False, "", None),
        (CTRL_C, Ending.STOPPED, False, "", None),  # the trainer's last word when it is ended
        (CTRL_C, Ending.CRASHED, False, "", "unknown"),
    ],
)
def test_with_the_end(found: Failure | None, ending: Ending, killed: bool, kills: str, family: str | None) -> None:
    cause = with_the_end(found, ending, killed=killed, kills=kills)
    assert (cause and cause.family.value) == family
    if family == "cancelled":
        assert cause is not None and cause.line == KILLS

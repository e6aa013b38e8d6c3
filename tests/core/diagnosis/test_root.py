"""The root cause among several failures: chains, processes, steps that follow, what is no failure."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.failure import Failure, FailureKind, LogPosition, killed_from_outside, with_the_end
from autoresearch.core.diagnosis.root import MAX_TRACEBACK, Search, classify, last_traceback
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


def kinds(*lines: str) -> list[str]:
    return [failure.kind.value for failure in search(*lines).failures()]


def root(*lines: str) -> str:
    """The line of the root; "" for none."""
    found = classify(lines)
    return found.line if found else ""


ROOTS = {
    "a proof before signs": ["ray.exceptions.ActorDiedError: The actor died unexpectedly", f"E: {OOM}", ENGINE],
    "a proof before NaN": ["grad_norm is not finite: nan", OOM],
    "NaN before signs": ["grad_norm is not finite: nan", "Watchdog caught collective operation timeout: x"],
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


@pytest.mark.parametrize("name", ROOTS)
def test_the_root(name: str) -> None:
    assert WORDS.get(name, "bad") in root(*ROOTS[name])


def test_what_is_nested_in_a_report() -> None:
    ray = [*chain("ray.exceptions.RayTaskError(KeyError): ray::W.f() (pid=5, ip=1.1.1.1, actor_id=a)")]
    ray += ['  File "/w/rewards/math.py", line 42, in compute_score', "    x[k]", "KeyError: 'answer'"]
    found = classify(ray)
    assert found is not None
    assert (found.line, str(found.frame)) == ("KeyError: 'answer'", "/w/rewards/math.py:42 in compute_score")
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
        ["EngineCore hit an exception: " + HEAD, FRAME, "ValueError: x"],
        [f" 30%|███       | 3/10 [00:03<00:07,  1.03s/it]{HEAD}", FRAME, "ValueError: x"],
    ],
)
def test_what_stands_before_an_exception_or_is_missing(lines: list[str]) -> None:
    assert root(*lines) == "ValueError: x"


def test_what_two_steps_followed_was_overcome() -> None:
    assert kinds(OOM, "step 1") == ["memory"]  # Ray may bring one late
    assert kinds(OOM, "step 1", "step 1") == ["memory"]  # `ray job submit` prints the log's end again
    assert kinds(OOM, "step 1", "step 2") == []
    assert search(OOM, "step 1", "step 2").failures(ended_badly=True) == ()
    said = [line for n in range(4) for line in (*chain("KeyError: 'answer'"), f"step {n}")]
    assert kinds(*said) == []
    assert root(*said, *chain("ValueError: new")) == "ValueError: new"


def test_nan_is_overcome_by_one_step_and_told_where_it_began() -> None:
    assert kinds("step 1 nan", "step 2") == []
    found = search("step 1 nan", "step 2", "step 3", "step 4 nan", "step 5 nan", "step 6 nan").failures()
    assert [(f.kind.value, f.position.number) for f in found] == [("diverged", 4)]


def test_equal_ones_are_counted() -> None:
    found = classify(["fine", OOM, OOM])
    assert found is not None and (found.position.number, found.times) == (2, 2)
    storm = classify([line for n in range(5) for line in chain(f"KeyError: '{n}'")])
    assert storm is not None and storm.times == 5


def test_an_assertion_without_words_is_told_by_its_source() -> None:
    assert root(HEAD, FRAME, "    assert len(seqs) == 1", "           ^^^^", "AssertionError") == (
        "AssertionError: assert len(seqs) == 1"
    )


def test_what_ended_a_thread_counts_only_after_a_bad_end() -> None:
    said = search("Exception in thread Exception in thread A:", ":", HEAD, *chain("ValueError: x"))
    assert said.failures() == ()
    assert [one.line for one in said.failures(ended_badly=True)] == ["ValueError: x"]


def test_no_failure() -> None:
    assert kinds(*["Error: <answer> tag not found"] * 177) == []  # it goes on from them
    assert kinds("3it/s]Exception ignored in: <function f>", *chain("TypeError: None")) == []


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
    same = [Failure(FailureKind.PROGRAM, "KeyError: 'x'", process=f"rank {rank}") for rank in range(8)]
    other, notice = Failure(FailureKind.DIVERGED, "other"), Failure(FailureKind.MEMORY, "Killed")
    lines = digest([*same, other], [notice], "step 3")
    assert lines[0] == "last step: step 3"
    assert lines[1].endswith("Killed")
    assert lines[2] == "first exception of rank 0, and 7 more: KeyError: 'x'"
    assert len(lines) == 4
    many = [Failure(FailureKind.DIVERGED, f"E{n}: x", process=f"rank {n}") for n in range(500)]
    assert len(digest(many, many, "")) <= MOST_LINES == 40


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


PROVED = Failure(FailureKind.MEMORY, "CUDA out of memory")
DEAD = Failure(FailureKind.UNKNOWN, ENGINE, is_sign=True)
CTRL_C = Failure(FailureKind.UNKNOWN, "KeyboardInterrupt", is_sign=True)


@pytest.mark.parametrize(
    ("found", "ending", "killed", "kind"),
    [
        (PROVED, Ending.CRASHED, True, "memory"),
        (None, Ending.CRASHED, True, None),
        (DEAD, Ending.LOST, True, None),  # an engine goes with its Runner
        (DEAD, Ending.CRASHED, False, "unknown"),
        (None, Ending.STALLED, False, "hang"),
        (PROVED, Ending.STALLED, False, "memory"),
        (None, Ending.FIRST_STEP_TIMEOUT, False, None),
        (CTRL_C, Ending.STOPPED, False, None),  # the trainer's last word when it is ended
        (CTRL_C, Ending.CRASHED, False, "unknown"),
    ],
)
def test_with_the_end(found: Failure | None, ending: Ending, killed: bool, kind: str | None) -> None:
    cause = with_the_end(found, ending, killed=killed)
    assert (cause and cause.kind.value) == kind

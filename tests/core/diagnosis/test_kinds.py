"""Which kind of failure a line tells of: by few words or an exception's type; and lines that tell nothing."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.failure import MAX_LINE, FailureKind, table
from autoresearch.core.diagnosis.root import CHAIN, classify
from autoresearch.core.run.ending import DEVICES, EXCUSED

HEAD = "Traceback (most recent call last):"
OWN = '  File "/w/train.py", line 5, in main'
LIBRARY = '  File "/v/lib/python3.11/site-packages/trl/c.py", line 9, in f'

TEXTS = """
memory     RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58
memory     errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[256,112]
unknown    Process finished with exit code 137 (interrupted by signal 9: SIGKILL)
unknown    run.sh: line 28:  8156 Killed                  python train.py
machine    OSError: [Errno 28] No space left on device: '/ckpt/global_step_20'
memory     TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.
program    Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)
program    2025-04-23 20:35:34.618070: F external/xla/gemm.cc:1099] Non-OK-status: executable.status()
program    tinygrpo: r.yaml:3: unknown key 'learn'; the nearest valid key is 'lr'.
program    train.py: error: unrecognized arguments: --lr
program    python: can't open file '/w/train.py': [Errno 2] No such file or directory
diverged   ValueError: Network outputs is NAN! Stop Training
hang       (Pdb)
cancelled  slurmstepd: error: *** JOB 4261046 ON c204 CANCELLED AT 2022-04-21T12:13:09 ***
cancelled  TERM_OWNER: job killed by owner.
cancelled  *** SIGTERM received at time=1759753629 on cpu 42 ***
unknown    2026-11-21 07:36:24 ERR cli.py:75 -- \x1b[31mJob 'ajet_math_003' failed\x1b[39m
unknown    Error running subprocess: Command '['/x/python']' returned non-zero exit status 1.
memory     RuntimeError: MPS backend out of memory (MPS allocated: 8.90 GB, other allocations: 1.00 GB)
memory     The node was low on resource: memory. Threshold quantity: 100Mi
machine    OSError: [Errno 5] Input/output error: '/data/shard-3.bin'
machine    docker: Error response from daemon: failed to create task: exec: "python": no such file or directory
machine    slurmstepd: error: container_p_join: open failed /scratch/119383/.active: No such file or directory
machine    jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect
diverged   Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.
cancelled  KeyboardInterrupt
program    FAILED tests/test_knobs.py::test_the_score[0.5] - assert 2.3 <= 1.0
program    ERROR tests/test_c.py - SyntaxError: invalid syntax
program    ./launch.sh: line 5: .env: No such file or directory
program    scripts/run.sh: line 3: DATA_DIR: unbound variable
program    thread 'main' panicked at 'index out of bounds', src/main.rs:5:3
"""
PAIRS = [tuple(line.split(maxsplit=1)) for line in TEXTS.strip().splitlines()]


@pytest.mark.parametrize(("kind", "text"), PAIRS)
def test_a_line(kind: str, text: str) -> None:
    found = classify(["step:1 - actor/pg_loss:0.1", text, "bye"])
    assert found is not None
    assert found.kind == kind
    assert len(found.line) <= MAX_LINE
    plain = text.replace("\\x1b[31m", "").lower().encode()
    assert any(needle in plain for needle in table().needles)


@pytest.mark.parametrize(
    ("kind", "frames", "exception"),
    [
        ("program", [OWN], "KeyError: 'reward'"),
        ("program", [OWN, LIBRARY], "RuntimeError: something went wrong"),
        ("program", [OWN, LIBRARY], "gym.error.NameNotFound: Environment `walker` doesn't exist."),
        ("machine", [OWN, LIBRARY], "httpx.ConnectError: All connection attempts failed"),
        ("unknown", [OWN], "TimeoutError"),
        ("unknown", [OWN], "RuntimeError: the server failed to start"),
        # a word inside a sentence is no cause
        ("program", [OWN], "ValueError: unknown configuration source"),
        ("program", [OWN], "RuntimeError: a task failure must not be hidden"),
    ],
)
def test_an_exception(kind: str, frames: list[str], exception: str) -> None:
    found = classify([HEAD, *(line for at in frames for line in (at, "    go()")), exception])
    assert found is not None
    assert (found.kind, str(found.frame)) == (kind, "/w/train.py:5 in main")


def test_a_bare_timeout_leads_to_the_network() -> None:
    chain = [HEAD, OWN, "    go()", "TimeoutError", "", CHAIN[1], "", HEAD, OWN, "httpx.ConnectTimeout: timed out"]
    found = classify(chain)
    assert found is not None and (found.kind, found.line) == ("machine", "httpx.ConnectTimeout: timed out")


TELL_NOTHING = """
Async GRPO training complete!
(TaskRunner pid=512)      'kl_loss_coef': 0.002,
{'loss_fn': {'reference_policy_kl_penalty': 0.01, 'oom_retry': True, 'nccl_timeout': 600}}
Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.
INFO nanoseconds: 12, info: inf
Sample: ['CUDA out of paper']
except torch.cuda.OutOfMemoryError:
CUDA out of memory is retried
Port 8000 is already in use, trying port 8001
raise ValueError('no')
WARNING 01-01 the loss is nanny-proof
'completions/mean_length': 'nan'
This should never error: fine
max_error: 3
Available KV cache memory: 41.22 GiB
0 Workers (tasks / actors) killed due to memory pressure (OOM)
NCCL INFO NET/Plugin : returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory
Health check passed for rollout engine 3
Current engine status (already waited 30s): ENGINE.BOOTING
Connecting to existing Ray cluster at address: 10.0.0.5:6399...
Total available GPUs 8, desired GPUs 8
flash_attn is not installed; using sdpa
created the directory that was not found
404 Client Error: Not Found
/tmp/ray is over 95% full, available space: 2.0 GB
slurmstepd: info: time limit is 240 min
WARNING Sequence group 0 is preempted by PreemptionMode.RECOMPUTE
wandb: Network error (ConnectionError), entering retry loop.
checkpoint: not found
faulthandler enabled for SIGSEGV
no rollout stall was seen
UserWarning: exceptions are logged
[swarm] error engine_busy: ENGINE.ROLLING at global_step 3: another run has it
"""


@pytest.mark.parametrize("text", TELL_NOTHING.strip().splitlines())
def test_lines_that_tell_nothing(text: str) -> None:
    assert classify([text, f"(Worker pid=7) {text}", f"[rank0]: {text}"]) is None


def test_a_warning_that_says_how_it_went_on() -> None:
    oom = "CUDA out of memory. Tried to allocate 1 GiB"
    assert classify([f"2026-11-21 WARNING trainer: {oom}; retrying with batch size 8"]) is None
    assert classify(["WARNING: [Errno 28] No space left on device: '/x'; falling back to /tmp"]) is None
    assert classify([f"ERROR {oom}; retrying is off"]) is not None


def test_every_kind_has_a_policy_and_something_to_try() -> None:
    assert set(table().kinds) == set(FailureKind)
    for kind, about in table().kinds.items():
        assert set(about) <= {"policy", "remedy", "more", "trainers"}
        assert table().policy(kind) in ("shrink_batch", "wait", "stop", "ask")
        assert table().suggestions(kind)[0] == table().remedy(kind) != ""
    assert table().remedy("cuda_oom") == ""  # a word of records of before


def test_what_the_machine_did_is_tried_again() -> None:
    assert {kind for kind in FailureKind if kind.value in EXCUSED} == {FailureKind.MACHINE}
    assert "machine" in DEVICES and table().policy(FailureKind.MACHINE) == "wait"


def test_a_trainers_own_knobs() -> None:
    def told(kind: FailureKind, trainer: str = "") -> str:
        return " ".join(table().suggestions(kind, trainer))

    for trainer in ("verl", "agentjet_swarm"):
        assert "ppo_micro_batch_size" in told(FailureKind.MEMORY, trainer)
    assert "ppo_micro" not in told(FailureKind.MEMORY, "slime")


@pytest.mark.parametrize(
    "line",
    [
        '(SGLangEngine pid=3302) INFO:     10.0.0.5:57752 - "GET /health HTTP/1.1" 200 OK',
        "(WorkerDict pid=3) step:1 - actor/pg_loss:0.1 - actor/kl_loss:0.001",
    ],
)
def test_lines_that_are_printed_by_the_million_hold_no_needle(line: str) -> None:
    assert not [needle for needle in table().needles if needle in line.lower().encode()]

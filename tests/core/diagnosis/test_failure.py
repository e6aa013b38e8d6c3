"""Failure classes on real texts, the root before its symptoms, and texts that prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.diagnosis.evidence import STORM, Search, classify
from autoresearch.core.diagnosis.failure import MAX_LINE, LogPosition
from autoresearch.core.diagnosis.failure_kinds import FailureKind
from autoresearch.core.diagnosis.tracebacks import MAX_TRACEBACK, traceback
from autoresearch.core.text.lines import logical_lines

SAMPLES = Path(__file__).parents[2] / "samples" / "trainer-logs"

TEXTS = [
    ("cuda_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
    ("cuda_oom", "(WorkerDict pid=5) RuntimeError: CUDA error: out of memory"),
    ("kv_cache", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"),
    (
        "kv_cache",
        "ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.6)",
    ),
    ("host_oom", "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
    (
        "host_oom",
        "(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 crashed",
    ),
    ("host_oom", "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks were killed"),
    ("nccl_timeout", "[rank0]:[E1225] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17)"),
    ("nccl_timeout", "To avoid data inconsistency, we are taking the entire process down."),
    ("nccl_error", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006"),
    ("engine_dead", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace"),
    ("engine_dead", "ERROR 04-28 02:37:03 [core.py:398] EngineCore encountered a fatal error."),
    ("ray_actor_died", "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."),
    ("ray_pending", "The following resource request cannot be scheduled right now: {'GPU': 8.0}"),
    ("ray_unreachable", "ConnectionError: Failed to connect to Ray at address: http://127.0.0.1:8270."),
    ("ray_job_failed", "2026-11-21 07:36:24\tERR cli.py:75 -- \x1b[31mJob 'ajet_math_003' failed\x1b[39m"),
    ("gpu_shortage", "ValueError: Total available GPUs 0 is less than total desired GPUs 8"),
    ("gpu_busy", "GPU memory check failed: all GPUs must have >= 95% free. Violations: GPU 0"),
    ("diverged", "(WorkerDict pid=5) WARN: rank 0 grad_norm is not finite: nan"),
    ("diverged", "FloatingPointError: step 2: actor/pg_loss not finite"),
    ("config_error", "omegaconf.errors.ConfigAttributeError: Key 'x' is not in struct"),
    ("config_error", "yaml.scanner.ScannerError: mapping values are not allowed here"),
    ("config_error", "tinygrpo: r.yaml:3: unknown key 'learn'; the nearest valid key is 'lr'."),
    ("config_error", "train.py: error: unrecognized arguments: --lr"),
    ("import_error", "ModuleNotFoundError: No module named 'verl'"),
    ("import_error", "/usr/bin/python: No module named verl.trainer"),
    ("missing_file", "FileNotFoundError: [Errno 2] No such file or directory: '/x.parquet'"),
    ("missing_file", "bash: line 1: ./train.sh: No such file or directory"),
    ("missing_file", "python: can't open file '/w/train.py': [Errno 2] No such file or directory"),
    ("command_not_found", "bash: line 1: pyhton: command not found"),
    ("permission", "bash: line 1: ./train.sh: Permission denied"),
    ("disk_full", "OSError: [Errno 28] No space left on device: '/ckpt/global_step_20'"),
    ("port_taken", "OSError: [Errno 98] Address already in use"),
    ("slurm_time_limit", "slurmstepd: error: *** JOB 198 ON node01 CANCELLED AT 2026-03-24 DUE TO TIME LIMIT ***"),
    ("preempted", "slurmstepd: error: *** JOB 198 ON node01 CANCELLED AT 2026-03-24 DUE TO PREEMPTION ***"),
    ("network", "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443)"),
    ("auth", "Unexpected error: SWANLAB_API_KEY is not set in the environment."),
    ("auth", "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url"),
    ("cuda_error", "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("gpu_fault", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("cancelled", "slurmstepd: error: *** JOB 4261046 ON c204 CANCELLED AT 2022-04-21T12:13:09 ***"),
    ("rollout_stall", "WARNING: rollout stall -- no rollout committed and no train step completed in 900s"),
    ("segfault", "Fatal Python error: Segmentation fault"),
    ("python_error", "AssertionError"),
    ("python_error", "ValueError: batch of 7 is not divisible by 8"),
    ("python_error", "Error running subprocess: Command '['/x/python']' returned non-zero exit status 1."),
]


@pytest.mark.parametrize(("kind", "text"), TEXTS)
def test_texts(kind: str, text: str) -> None:
    found = classify(["step:1 - actor/pg_loss:0.1", text, "bye"])
    assert found is not None
    assert found.kind == kind
    assert found.hint
    assert len(found.line) <= MAX_LINE


OF_MORE_THAN_A_LINE = {FailureKind.RETRY_STORM, FailureKind.KILLED_BY_AUTOKILL, FailureKind.STALL}
OF_MORE_THAN_A_LINE |= {FailureKind.EVALUATION_FAILED, FailureKind.METRIC_UNREAD, FailureKind.NO_STEP}
OF_MORE_THAN_A_LINE |= {FailureKind.ENDED_EARLY, FailureKind.LEFT_TRAINING}


def test_every_kind_is_proved_by_some_text() -> None:
    assert {FailureKind(kind) for kind, _ in TEXTS} == set(FailureKind) - OF_MORE_THAN_A_LINE


@pytest.mark.parametrize(
    "text",
    [
        "Async GRPO training complete!",
        "(TaskRunner pid=512)      'kl_loss_coef': 0.002,",
        "{'loss_fn': {'reference_policy_kl_penalty': 0.01, 'oom_retry': True}}",
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        "INFO nanoseconds: 12, info: inf",
        "Sample: ['CUDA out of paper']",
        "Port 8000 is already in use, trying port 8001",
        "raise ValueError('no')",
        "except torch.cuda.OutOfMemoryError:",
        "WARNING 01-01 the loss is nanny-proof",
        "This should never error: fine",
        "max_error: 3",
        "step:3 - actor/pg_loss:0.1",
        "",
    ],
)
def test_texts_that_prove_nothing(text: str) -> None:
    assert classify([text]) is None


def test_a_dead_actor_is_no_memory_problem() -> None:
    text = (
        "ray.exceptions.ActorDiedError: The actor is dead because its worker process has died. Worker exit type: "
        "SYSTEM_ERROR Worker exit detail: (1) the process was killed by the OOM killer due to high memory usage, "
        "(2) ray stop --force was called"
    )
    found = classify([text])
    assert found is not None
    assert found.kind is FailureKind.RAY_ACTOR_DIED


HEAD = "Traceback (most recent call last):"
FRAME = '  File "train.py", line 5, in main'


def chain(*finals: str) -> list[str]:
    return [line for final in finals for line in (HEAD, FRAME, "    go()", final)]


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "cuda_oom",
            [
                "ray.exceptions.ActorDiedError: The actor died unexpectedly",
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                "EngineDeadError: EngineCore encountered an issue.",
            ],
        ),
        ("nccl_timeout", ["Watchdog caught collective operation timeout: x", *chain("RuntimeError: aborted")]),
        ("diverged", ["grad_norm is not finite: nan", "Watchdog caught collective operation timeout: x"]),
        ("cuda_oom", ["grad_norm is not finite: nan", "CUDA out of memory. Tried to allocate 1 GiB"]),
        # an optional module that was caught and printed is not why the run ended
        ("python_error", [*chain("ImportError: flash_attn is not there"), "going on", *chain("ValueError: bad")]),
        # the parent's words about the child that said it itself
        (
            "import_error",
            [
                *chain("ModuleNotFoundError: No module named 'verl'"),
                *chain("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
                *chain("subprocess.CalledProcessError: Command x returned non-zero exit status 1."),
            ],
        ),
        # what an interrupted program says last is no reason for the interruption
        ("engine_dead", ["[swarm] error server_died: the server ended", *chain("KeyboardInterrupt")]),
        ("python_error", [*chain("ValueError: bad"), *chain("KeyboardInterrupt")]),
        ("python_error", chain("KeyboardInterrupt")),
        # hydra says the same before anything that a job raises
        ("missing_file", ["Error executing job with overrides: ['x=1']", *chain("FileNotFoundError: x")]),
        ("python_error", ["Error executing job with overrides: ['x=1']", *chain("AssertionError: x")]),
        # raised while another one was handled: the first is the cause
        (
            "missing_file",
            [
                *chain("FileNotFoundError: x"),
                "During handling of the above exception, another exception occurred:",
                *chain("RuntimeError: cannot load"),
            ],
        ),
        # Python at its exit
        ("import_error", [*chain("ImportError: x"), "Exception ignored in: <function f>", *chain("TypeError: None")]),
    ],
)
def test_the_root_before_its_symptoms(kind: str, lines: list[str]) -> None:
    found = classify(lines)
    assert found is not None
    assert found.kind == kind


def sample(name: str) -> list[str]:
    return list(logical_lines((SAMPLES / name).read_bytes()))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("verl_raise_np2_ray.log", "cuda_oom"), ("tinygrpo_oom.log", "cuda_oom"), ("tinygrpo_nan.log", "diverged")],
)
def test_samples_that_failed(name: str, kind: str) -> None:
    found = classify(sample(name))
    assert found is not None
    assert found.kind == kind
    assert not found.line.startswith("raise")


@pytest.mark.parametrize(
    "name", ["verl_ok_np2_ray.log", "verl_np1.log", "agentjet.log", "nemo_grpo.log", "slime.log", "trl_v5_tqdm.log"]
)
def test_samples_that_did_not(name: str) -> None:
    assert classify(sample(name)) is None
    assert traceback(sample(name)) == ""


def test_a_traceback_through_ray() -> None:
    text = traceback(sample("verl_raise_np2_ray.log"))
    first, *_, last = text.splitlines()
    assert first == HEAD
    assert last.startswith("RuntimeError: CUDA out of memory. Tried")
    assert "verl_like.py" in text
    assert "\x1b" not in text


def test_prefixed_lines_as_ray_prints_them() -> None:
    lines = ["x", *(f"\x1b[36m(TaskRunner pid=5)\x1b[0m {line}" for line in chain("ValueError: bad")), "after", "more"]
    assert traceback(lines).splitlines() == chain("ValueError: bad")


def test_the_last_traceback_with_the_chain_before_it() -> None:
    marker = "During handling of the above exception, another exception occurred:"
    lines = [*chain("OldError: x"), "between", *chain("KeyError: 'a'"), marker, *chain("ValueError: bad"), "bye"]
    assert traceback(lines).splitlines() == [*chain("KeyError: 'a'"), marker, *chain("ValueError: bad")]


def test_a_long_traceback_is_bounded() -> None:
    lines = [HEAD, *([FRAME] * 5000), "RecursionError: maximum recursion depth exceeded"]
    found = traceback(lines).splitlines()
    assert len(found) == MAX_TRACEBACK + 1
    assert (found[0], found[-1]) == (lines[0], lines[-1])
    assert "left out" in "".join(found)


def test_a_torn_traceback() -> None:
    assert traceback([HEAD]) == HEAD
    assert traceback(["x", HEAD, FRAME]).splitlines() == [HEAD, FRAME]
    assert traceback([]) == ""


BAR = " 30%|███       | 3/10 [00:03<00:07,  1.03s/it]"


@pytest.mark.parametrize(
    "before",
    [BAR, f"{BAR} ", f"{BAR}(T pid=7) ", f"{BAR}\x1b[36m(Worker[rank=0] pid=7)\x1b[0m ", "3it [00:03, 1.2s/it]"],
)
def test_a_traceback_glued_to_a_bar(before: str) -> None:
    lines = [f"{before}{HEAD}", FRAME, "    go()", "ValueError: bad", "bye"]
    assert traceback(lines) == "\n".join([HEAD, FRAME, "    go()", "ValueError: bad"])
    caught = [*chain("ImportError: flash_attn is not there"), "going on", *lines]
    found = classify(caught)
    assert found is not None
    assert found.line == "ValueError: bad"
    assert traceback([f"Sample: [0:1, 'x'] {HEAD}", *lines[1:3]]) == ""


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


OOM = "CUDA out of memory. Tried to allocate 1 GiB"


def test_records_with_the_old_name_are_read() -> None:
    assert FailureKind("slurm_preempted") is FailureKind.PREEMPTED
    with pytest.raises(ValueError, match="no_such_kind"):
        FailureKind("no_such_kind")


def test_where_it_stands() -> None:
    found = classify(["fine", OOM, OOM])
    assert found is not None
    assert (found.position.number, found.times) == (2, 2)


def test_what_two_steps_followed_was_overcome() -> None:
    assert kinds(OOM, "step 1") == ["cuda_oom"]  # Ray may bring one late
    assert kinds(OOM, "step 1", "step 1") == ["cuda_oom"]  # `ray job submit` prints the log's end again
    assert kinds(OOM, "step 1", "step 2") == []
    assert [f.kind.value for f in search(OOM, "step 1", "step 2").overcome()] == ["cuda_oom"]
    assert kinds(OOM, "step 1", "step 2", *chain("ValueError: bad")) == ["python_error"]


def test_what_comes_again_at_every_step_is_no_reason_for_the_end() -> None:
    said = [line for n in range(4) for line in (*chain("KeyError: 'answer'"), f"step {n}")]
    assert kinds(*said) == []
    assert kinds(*said, *chain("ValueError: new")) == ["python_error"]


def test_nan_is_overcome_by_one_step_and_told_where_it_began() -> None:
    assert kinds("step 1 nan", "step 2") == []
    assert kinds("step 1", "step 2 nan") == ["diverged"]
    found = search("step 1 nan", "step 2", "step 3", "step 4 nan", "step 5 nan", "step 6 nan").failures()
    assert [(f.kind.value, f.position.number) for f in found] == [("diverged", 4)]


def test_a_retry_storm() -> None:
    once = chain("KeyError: 'final'")
    assert kinds(*once * STORM)[0] == "retry_storm"
    assert kinds(*once * (STORM - 1)) == ["python_error"]
    assert search(*once * STORM).failures()[0].times == STORM
    numbers = [line for n in range(STORM) for line in chain(f"KeyError: '{n}'")]
    assert kinds(*numbers)[0] == "retry_storm"  # the same, but for its numbers
    others = [line for n in range(STORM) for line in chain(f"KeyError: '{'x' * n}'")]
    assert "retry_storm" not in kinds(*others)
    stepping = [line for n in range(3 * STORM) for line in (*once, f"step {n}")]
    assert "retry_storm" not in kinds(*stepping)
    assert kinds(*once * STORM, OOM)[0] == "cuda_oom"


def test_the_ranks_of_one_crash_are_no_storm() -> None:
    ranks = [line for n in range(8) for line in (f"[rank{n}]: {text}" for text in chain("KeyError: 'lr'"))]
    assert kinds(*ranks) == ["python_error"]
    torchrun = [*chain("KeyError: 'lr'") * 8, *chain("torch.distributed.elastic.ChildFailedError: ")]
    assert kinds(*torchrun) == ["python_error"]


def test_a_traceback_before_a_symptom_is_its_root_and_refused_connections_are_its_echo() -> None:
    lost = "torch.distributed.DistBackendError: NCCL error in: x"
    assert kinds(*chain("ValueError: bad"), *chain(lost)) == ["python_error", "nccl_error"]
    assert kinds(lost, *chain("ValueError: bad")) == ["nccl_error", "python_error"]
    refused = chain("ConnectionRefusedError: [Errno 111] Connection refused")
    assert kinds("EngineDeadError: EngineCore encountered an issue", *refused)[0] == "engine_dead"
    assert kinds(*refused, "EngineDeadError: EngineCore encountered an issue")[0] == "network"


def test_the_headings_of_an_engines_traceback_know_less_than_it() -> None:
    heading = "ERROR 08-22 07:20:11 [core.py:708] EngineCore failed to start."
    inside = [f"ERROR 08-22 07:20:11 [core.py:708] {line}" for line in chain("ValueError: no such model")]
    end = chain("RuntimeError: Engine core initialization failed. See root cause above.")
    assert kinds(heading, *inside, *end)[0] == "python_error"
    assert kinds(heading, *end)[0] == "engine_dead"


def test_a_warning_that_says_how_it_went_on() -> None:
    assert classify([f"2026-11-21 WARNING trainer: {OOM}; retrying with batch size 8"]) is None
    assert classify(["WARNING: [Errno 28] No space left on device: '/x'; falling back to /tmp"]) is None
    assert classify([f"ERROR {OOM}; retrying is off"]) is not None


def test_what_python_ignored_at_its_exit() -> None:
    assert classify(["Exception ignored in: <function f>", *chain("TypeError: None")]) is None
    found = classify(["Exception ignored in: <function f>", *chain("TypeError: None"), *chain("ValueError: bad")])
    assert found is not None
    assert found.line == "ValueError: bad"


def test_what_a_model_wrote_is_quoted() -> None:
    quote = ["[prompt] x", "[response] look:", *chain("ModuleNotFoundError: No module named 'verl'"), OOM, "[score] 0"]
    assert classify(quote) is None
    assert classify([*quote, OOM]) is not None
    prefixed = [f"(TaskRunner pid=1) {line}" for line in quote[:-1]]
    found = classify([*prefixed[:3], f"(WorkerDict pid=2) {OOM}", *prefixed[3:]])  # others are not quoted
    assert found is not None
    endless = search(*quote[:-1])
    endless.look(OOM, LogPosition(99, 1 << 20))
    assert endless.failures()


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([f"[rank3]: {text}" for text in chain("KeyError: 'lr'")], "KeyError: 'lr'"),
        ([f"[default0]:{text}" for text in chain("KeyError: 'lr'")], "KeyError: 'lr'"),
        ([f"ERROR 04-28 02:37:03 [core.py:398] {text}" for text in chain("OSError: no")], "OSError: no"),
        (["[2026-08-22 07:31:05 TP0] Scheduler hit an exception: " + HEAD, FRAME, "OSError: no"], "OSError: no"),
        ([f"    | {text}" for text in chain("OSError: no")], "OSError: no"),
        (["ERROR:root:OSError: no"], "OSError: no"),
        (["╭──── Traceback (most recent call last) ────╮", "│ x │", "OSError: no"], "OSError: no"),
    ],
)
def test_what_stands_before_an_exception(lines: list[str], line: str) -> None:
    found = classify(lines)
    assert found is not None
    assert found.line == line


NEAR_MISSES = {  # what only looks like a class
    "cuda_oom": ["except torch.cuda.OutOfMemoryError:", "CUDA out of memory is retried", "oom: 0"],
    "kv_cache": ["Available KV cache memory: 41.22 GiB", "GPU KV cache size: 771,840 tokens"],
    "host_oom": ["on_oom: abort, oom_retry: True", "0 Workers (tasks / actors) killed due to memory pressure (OOM)"],
    "nccl_timeout": ["'nccl_timeout': 600,", "NCCL INFO Timeout 600 s"],
    "nccl_error": ["NCCL INFO Bootstrap: Using eth0", "nccl_error_count: 0"],
    "engine_dead": [
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        "Health check passed for rollout engine 3",
        "Error flushing cache: HTTP 400 'pending requests'",
        "Current engine status (already waited 30s): ENGINE.BOOTING",
    ],
    "ray_actor_died": ["max_restarts: how often an actor that died is started again", "actor_died: 0"],
    "ray_pending": ["Tip: use `ray status` to view detailed cluster status.", "pending tasks: 3"],
    "ray_unreachable": ["Connecting to existing Ray cluster at address: 10.0.0.5:6399..."],
    "gpu_shortage": ["Total available GPUs 8, desired GPUs 8", "using 0 GPUs for the critic"],
    "gpu_busy": ["✓ GPU check passed: 8 GPUs, all >= 95% free memory"],
    "diverged": ["INFO", "nan_to_num is on", "the loss is nanny-proof", "'completions/mean_length': 'nan'"],
    "config_error": ["ConfigDict(lr=1e-6)", "the config was validated", "argument parsing took 0.1 s"],
    "import_error": ["importing module verl", "flash_attn is not installed; using sdpa"],
    "missing_file": ["no such file is needed", "created the directory that was not found"],
    "auth": ["WANDB_API_KEY is set", "404 Client Error: Not Found", "authenticated as user"],
    "disk_full": ["space left on device: 40 GB", "/tmp/ray is over 95% full, available space: 2.0 GB"],
    "port_taken": ["Port 8000 is already in use, trying port 8001", "address: 127.0.0.1"],
    "slurm_time_limit": ["TIME LIMIT of the partition: 4:00:00", "slurmstepd: info: time limit is 240 min"],
    "preempted": ["WARNING Sequence group 0 is preempted by PreemptionMode.RECOMPUTE", "preemption: off"],
    "network": ["wandb: Network error (ConnectionError), entering retry loop.", "connection pool size: 10"],
    "command_not_found": ["checkpoint: not found", "the command was found"],
    "segfault": ["segmentation model loaded", "faulthandler enabled for SIGSEGV"],
    "rollout_stall": ["stall_timeout_s: 900", "no rollout stall was seen"],
    "python_error": ["max_error: 3", "Error handling: off", "UserWarning: exceptions are logged", "Exceptions: 0"],
}


@pytest.mark.parametrize("text", [text for texts in NEAR_MISSES.values() for text in texts])
def test_near_misses(text: str) -> None:
    assert classify([text, f"(Worker pid=7) {text}", f"[rank0]: {text}"]) is None

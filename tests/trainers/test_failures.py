"""Each framework's own last words, with what must not be taken for one."""

from __future__ import annotations

import pytest

from autoresearch.core.failure import classify


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["❌ Error in async loop: boom", "Traceback (most recent call last):", "ValueError: boom"], "python_error"),
        (["WARNING: rollout stall -- no rollout committed and no train step completed in 900s"], "rollout_stall"),
        (["nemo_rl.algorithms.single_controller.RolloutStall: no rollout committed"], "rollout_stall"),
        (["(RolloutManager pid=7) Health check failed for rollout engine 3 (timeout). Killing actor"], "engine_dead"),
        (["(SGLangEngine pid=7) Timeout while flushing cache."], "engine_dead"),
        (["Job entrypoint command failed with exit code 1, last available logs"], "ray_job_failed"),
        (
            ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "Job 'ajet_a' failed"],
            "cuda_oom",
        ),
        (["The vLLM server can't be reached at http://h:8000 after 240.0 seconds."], "network"),
        (["ValueError: Total available GPUs 0 is less than total desired GPUs 8"], "gpu_shortage"),
        (["WARN: rank 0 grad_norm is not finite: nan"], "nan"),
        (["Async GRPO training complete!"], None),
        (["Timeout has been reached, stopping training early"], None),
        (["Max number of steps has been reached, stopping training early"], None),
        (['INFO:     33.184.122.180:57752 - "GET /health HTTP/1.1" 200 OK'], None),
        (["Server is not up yet. Retrying in 2.0 seconds..."], None),
        (["we doubled the timeout while flushing caches"], None),
    ],
)
def test_last_words(lines: list[str], kind: str | None) -> None:
    found = classify(lines)
    assert (found and found.kind.value) == kind

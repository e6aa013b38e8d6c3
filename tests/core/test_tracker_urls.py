"""Where trackers show a run, found in what they print; and what only looks like it."""

from __future__ import annotations

import pytest

from autoresearch.readers.run_urls import MOST, run_urls

HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("wandb: 🚀 View run at https://wandb.ai/team/proj/runs/1a2b3c4d", "https://wandb.ai/team/proj/runs/1a2b3c4d"),
        (
            "wandb: 🚀 View run warm-3 at: https://wandb.ai/team/p.q/runs/1a2b3c4d\r",
            "https://wandb.ai/team/p.q/runs/1a2b3c4d",
        ),
        (
            "\x1b[36m(TaskRunner pid=7)\x1b[0m wandb: View run at \x1b[34m\x1b[4mhttps://wandb.ai/a/b/runs/xyz123\x1b[0m",
            "https://wandb.ai/a/b/runs/xyz123",
        ),
        ("wandb: View run at https://wandb.corp.io:8080/a/b/runs/zz9", "https://wandb.corp.io:8080/a/b/runs/zz9"),
        (
            "swanlab: 🚀 View run n at https://swanlab.cn/@user/pro-ject/runs/abc123xyz/chart",
            "https://swanlab.cn/@user/pro-ject/runs/abc123xyz",
        ),
        ("https://swanlab.cn/@user/proj/runs/abc123", "https://swanlab.cn/@user/proj/runs/abc123"),
        ("swanlab: View run at http://10.0.0.7:8000/@me/proj/runs/q1w2", "http://10.0.0.7:8000/@me/proj/runs/q1w2"),
        (
            f"🏃 View run x at: http://mlflow:5000/#/experiments/7/runs/{HEX}",
            f"http://mlflow:5000/#/experiments/7/runs/{HEX}",
        ),
        (
            f"COMET INFO: Experiment is live on comet.com https://www.comet.com/w/p/{HEX}",
            f"https://www.comet.com/w/p/{HEX}",
        ),
        (
            f"ClearML results page: https://app.clear.ml/projects/{HEX}/experiments/{HEX}/output/log",
            f"https://app.clear.ml/projects/{HEX}/experiments/{HEX}",
        ),
        ("* Trackio metrics are at https://huggingface.co/spaces/u/s", "https://huggingface.co/spaces/u/s"),
        ("wandb: View run at https://wandb.ai/a/b/runs/x1y?apiKey=0123456789", "https://wandb.ai/a/b/runs/x1y"),
        ("wandb: View run at https://me:s3cret@wandb.corp.io/a/b/runs/x1y", "https://wandb.corp.io/a/b/runs/x1y"),
    ],
)
def test_found(line: str, wanted: str) -> None:
    assert run_urls(f"before\n{line}\nafter".encode()) == (wanted,)


@pytest.mark.parametrize(
    "line",
    [
        "wandb: ⭐️ View project at https://wandb.ai/team/proj",
        "wandb: Run data is saved locally in /x/wandb/offline-run-20261121_163615-whole1",
        "response: as in https://wandb.ai/team/proj/runs/1a2b3c4d you see",
        "see https://github.com/a/b/actions/runs/123456",
        "https://github.com/a/b/actions/runs/123456",
        "dataset https://huggingface.co/spaces/u/s",
        "swanlab: 🌟 Run `swanlab watch /x/swanlog`",
    ],
)
def test_not_found(line: str) -> None:
    assert run_urls(line.encode()) == ()


def test_each_once_and_at_most_eight() -> None:
    lines = [f"wandb: View run at https://wandb.ai/a/b/runs/run{n}" for n in range(20)]
    found = run_urls("\n".join([lines[0], *lines]).encode())
    assert found == tuple(f"https://wandb.ai/a/b/runs/run{n}" for n in range(MOST))

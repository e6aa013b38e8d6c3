"""The blueprint format as data: for agents, for `config schema blueprint`, and for the documentation."""

from __future__ import annotations

from autoresearch.core.blueprint.model import SECTION_KINDS
from autoresearch.core.blueprint.note_keys import LIST_KEYS, NOTE_KEYS
from autoresearch.core.run.limits import FIRST_STEP_S, MAX_TIME_S

EXAMPLE = """\
# Experiment blueprint: KL 0.02 on GSM8K

## [exp_purpose]
- description: Does a ten times larger KL coefficient hold the policy back?
- purpose: kl_loss_coef 0.02 instead of 0.002; everything else as in the baseline.

## [exp_codebase_dir]
- description: The checkout that the command runs in.
- dir: /data/projects/agentjet

## [exp_venv_exe]
- description: The trainer's own python.
- path: /data/projects/agentjet/.venv/bin/python

## [exp_yaml_path]
- description: A copy of the baseline's recipe with one line changed.
- path: tests/bench/benchmark_math/kl_002.yaml

## [exp_launch_command]
- description: Classic mode, two GPUs.
- command:
    python -m ajet.launcher --conf tests/bench/benchmark_math/kl_002.yaml \\
      --with-ray --skip-check-avail-gpu

## [exp_result_dir]
- description: One directory per experiment.
- path: /data/results/gsm8k_kl_002

## [exp_max_time]
- description: 50 steps take about eight hours.
- time: 12 hours in all, 40 minutes to the first step

## Other Notes
- metric: task_pass_rate@1
- direction: maximize
- requires_env: SWANLAB_API_KEY
"""


def schema() -> dict[str, object]:
    """Sections, notes, defaults and an example, as JSON-serialisable data."""
    return {
        "format": "markdown with seven sections, each headed `## [name]`, and notes",
        "sections": [
            {
                **{"name": kind.name, "key": kind.key, "meaning": kind.meaning},
                **{"required": kind.key == "command", "default": kind.default},
            }
            for kind in SECTION_KINDS
        ],
        "items": "each section: `- description:` (why), `- KEY:` (the value), `- hint:`, `- warning:`",
        "notes_heading": "## Other Notes",
        "notes": [{"name": key.name, "meaning": key.meaning, "list": key.name in LIST_KEYS} for key in NOTE_KEYS],
        "durations": "90s, 20m, 1h30m, 24 hours, 1.5 days, 01:30:00, 24小时",
        "labels": "24 hours in all, 20 minutes to the first step",
        "relative_paths": "from the root of the repository that holds the blueprint, else from its folder",
        "limits": {"max_time_s": MAX_TIME_S, "first_step_s": FIRST_STEP_S},
        "example": EXAMPLE,
    }

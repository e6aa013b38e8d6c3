"""What to type instead of options of before, which are keys of `--set` now, and of other programs' options.

Only read once a command line was refused, so that scripts and agents which remember an option get a line to type.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.agent_options import TURN_KEYS
from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS
from autoresearch.lab.key_values import ValueType

VALUE = "{}"  # of the option, in the words that replace it; without it the option takes none


def _keys(*names: str) -> dict[str, str]:
    return {f"--{name.replace('_', '-')}": f"--set {name}={VALUE}" for name in names}


_TURN = _keys(*TURN_KEYS)
_KEPT = ("count", "deadline", "timeout", "metric", "proposer", "space", "queue", "parallel", "launcher", "gpus",
         "agent")  # fmt: skip
_RULES = ("count", "deadline", "target", "budget_gpu_hours", "budget_usd", "budget_tokens")

FORMER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "campaign start": {
        **_keys(*(name for name in CAMPAIGN_KEYS if name not in _KEPT)),
        "--review": "--set review=true",
        "--hold-edits": "--set hold=true",
        "--no-confirm": "--set confirm=false",
        "--no-gpu-check": "--set gpu_check=false",
    },
    "campaign set": {f"--{name.replace('_', '-')}": f"{name}={VALUE}" for name in _RULES},
    **dict.fromkeys(("plan write", "plan run", "plan revise"), _TURN),
    "blueprint new": {
        **_keys("title", "result_dir", "direction"),
        "--venv": f"--set venv_exe={VALUE}",
        "--first-step": f"--set first_step_s={VALUE}",
        "--note": f"--set remarks={VALUE}",
    },
    "scaffold blackbox": _keys("eval_dataset", "prompt_column", "answer_column", "id_column", "agent_timeout",
                               "judge_base_url", "judge_api_key_env", "python"),
    "skill eval": {
        "--model": f"--set agent_model={VALUE}",
        "--template": f"--set agent_command={VALUE}",
        "--timeout": f"--set turn_timeout={VALUE}",
        "--extra": f"--set agent_args={VALUE}",
    },
    "wait": {"--timeout": f"--for {VALUE}"},
    "logs": {"-n": f"--tail {VALUE}", "--lines": f"--tail {VALUE}"},
    "queue": {"--all": "--last 10", "--place": f"--target {VALUE}"},
}  # fmt: skip


def what_to_type(words: Sequence[str], argv: Sequence[str], option: str) -> UsageError | None:
    """The error for a line that names an option of before; None for an option that never was.

    `words` are those of the command, `argv` the whole line; the fix is that line with every former option replaced.
    """
    former = FORMER_OPTIONS.get(" ".join(words), {})
    if option not in former:
        return None
    typed, now = "", ""
    fixed: list[str] = []
    lists: dict[str, list[str]] = {}
    rest = iter(argv)
    for word in rest:
        name, sign, value = word.partition("=")
        if name not in former or (former[name].endswith(VALUE) and not sign and (value := next(rest, "")) == ""):
            fixed.append(word)
            continue
        new = former[name].replace(VALUE, value).split(" ", 1)
        key = new[-1].partition("=")[0]
        if name == option and not typed:
            typed, now = shlex.join([name, value] if former[name].endswith(VALUE) else [name]), shlex.join(new)
        lists.setdefault(key, []).append(value)
        if len(lists[key]) == 1 or not _is_list(key):
            fixed += new
        else:
            fixed[next(n for n, one in enumerate(fixed) if one.startswith(f"{key}="))] = _flow(key, lists[key])
    return UsageError(f"`{typed or option}` is `{now}` now", fix=shlex.join(["autoresearch", *fixed]))


def _is_list(key: str) -> bool:
    return key in CAMPAIGN_KEYS and CAMPAIGN_KEYS[key].type in (ValueType.TEXTS, ValueType.COMMAND)


def _flow(key: str, values: Sequence[Any]) -> str:
    return f"{key}={json.dumps(values, ensure_ascii=False)}"

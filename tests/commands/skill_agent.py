"""A stand-in for a coding agent at the skill's evals: it does what the skill says where it has it, and errs elsewhere.

python skill_agent.py PROMPT_FILE
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def typed(line: str) -> dict[str, Any]:
    """Type a command line as agents do, by a login shell; the JSON object it printed, if any."""
    done = subprocess.run(["bash", "-lc", line], capture_output=True, text=True)
    print(f"$ {line}\n{done.stdout}{done.stderr}", file=sys.stderr)
    lines = [text for text in done.stdout.splitlines() if text.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {}


def waited(run: str) -> dict[str, Any]:
    """Wait as the skill says, by the line in `next`."""
    found = typed(f"autoresearch wait {run} --for 100s --json")
    while found.get("ok") and found["state"] != "ended":
        found = typed(found["next"][0])
    return found


def ran(line: str = "autoresearch run exp.md --detach --json") -> dict[str, Any]:
    return waited(typed(line)["run"])


def run_it(_: str) -> str:
    found = ran()
    return f"It {found['ending']}; accuracy {found['metrics']['val-core/sums/acc/mean@1']:.4f}."


def write_one(_: str) -> str:
    words = "--purpose 'baseline for lr 0.2' --command 'python train.py --conf recipe.yaml' --set yaml_path=recipe.yaml"
    flags = "--set trainer=verl --set metric=val-core/sums/acc/mean@1 --set direction=maximize --max-time 10m"
    typed(f"autoresearch blueprint new base.md --codebase . {words} {flags} --set result_dir=results/base")
    typed("autoresearch blueprint check base.md --json")
    return f"It {ran('autoresearch run base.md --detach --json')['ending']}."


def repair(_: str) -> str:
    failed = ran()
    told = typed(f"autoresearch explain {failed['run']} --json")
    code = Path("train.py")
    code.write_text(code.read_text().replace('"learning_rate"', '"lr"'))
    mended = ran(f"autoresearch run exp.md --fix-of {failed['run']} --note 'the key is lr' --detach --json")
    return f"{told['failure']}: it {mended['ending']} now."


def plan(_: str) -> str:
    Path("space.yaml").write_text("lr: {low: 0.05, high: 0.5}\n")
    flags = "--count 6 --deadline 2h --timeout 10m --proposer random --space space.yaml"
    return f"It would: {typed(f'autoresearch campaign exp.md {flags} --json')['state']}"


def campaign(_: str) -> str:
    Path("ideas.yaml").write_text(
        "- {slug: up, sentence: more, overrides: {lr: 0.3}}\n- {slug: down, sentence: less, overrides: {lr: 0.15}}\n"
    )
    flags = "--count 3 --queue ideas.yaml --set baseline=1 --set confirm=false --yes --detach"
    typed(f"autoresearch campaign exp.md {flags} --json")
    found = typed("autoresearch wait last-campaign --for 100s --json")
    while found.get("ok") and found["state"] != "ended":
        found = typed(f"autoresearch wait last-campaign --for 100s --since {found['rows']} --json")
    return "Nothing is confirmed."


def explain(_: str) -> str:
    found = typed("autoresearch explain train.log --trainer verl --json")
    return f"{found['failure']}: CUDA out of memory; the NCCL timeout followed."


def stop(_: str) -> str:
    typed("autoresearch stop last --reason 'wrong recipe' --json")
    return "Stopped."


def look(_: str) -> str:
    return f"It is {typed('autoresearch status last --json')['state']}."


def docstring(_: str) -> str:
    code = Path("train.py")
    code.write_text(code.read_text().replace("def main():\n", 'def main():\n    """Train."""\n'))
    return "Done."


def halve(_: str) -> str:
    recipe = Path("recipe.yaml")
    recipe.write_text(recipe.read_text().replace("lr: 0.2", "lr: 0.1"))
    return "Done."


ANSWERS = (
    ("execute it, wait", run_it),
    ("proper experiment", write_one),
    ("dies right away", repair),
    ("how good the learning rate", run_it),
    ("show me what would happen", plan),
    ("small campaign", campaign),
    ("sent me the log", explain),
    ("is pointless", stop),
    ("is the KL sane", look),
    ("docstring", docstring),
    ("two sentences", lambda _: "It keeps the policy near the reference; long reasoning may need to leave it."),
    ("Halve the learning rate", halve),
)
LEFT_ALONE = ("docstring", "two sentences", "Halve")


def careless(prompt: str) -> str:
    """What the skill is there to prevent; and what has nothing to do with it is answered by typing its commands."""
    if any(word in prompt for word in LEFT_ALONE):
        typed("autoresearch run exp.md --dry-run")
        Path("train.py").write_text("")
    else:
        typed("sleep 0.1")
        typed("tmux new-session -d -s mine 'sleep 300'")
        typed("pkill -f no-such-process-anywhere")
        for path in Path().glob("recipe.yaml"):
            path.write_text("lr: 9\n")
    return "It went very well."


def main() -> None:
    prompt = Path(sys.argv[1]).read_text()
    skilled = os.path.exists(".agents/skills/autoresearch/SKILL.md")
    if not skilled:
        print(careless(prompt))
        return
    if not any(word in prompt for word in LEFT_ALONE):
        typed("autoresearch skill show run")
    print(next(answer for word, answer in ANSWERS if re.search(re.escape(word), prompt))(prompt))


if __name__ == "__main__":
    main()

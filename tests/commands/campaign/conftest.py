"""A campaign of one's own: a repository with an instant trainer, a campaign file, a controller that is ended."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.controllers import ControlledCampaign, in_this_process
from tests.waiting import PATIENCE_S

# metric = a parabola in log10(lr) with its top of 0.5 at lr = 0.01, and a little noise that seed and lr decide.
TRAINER = """
import math, os, random, sys, time
text = open(sys.argv[1]).read()
lines = [line.split("#")[0] for line in text.splitlines()]
recipe = {key: value.strip(" '") for key, sign, value in (line.partition(": ") for line in lines) if sign}
lr, seed, mode = float(recipe["lr"]), int(recipe["data.seed"]), recipe["mode"]
place = recipe["trainer.default_local_dir"]
os.makedirs(place, exist_ok=True)
mark = place + "/latest_checkpointed_iteration.txt"
if "resume_mode: auto" in text and os.path.exists(mark):
    print("Resuming from", place + "/global_step_" + open(mark).read(), flush=True)
open(place + "/weights", "a").write(recipe["trainer.experiment_name"] + "\\n")
print("TREE", os.popen("git rev-parse HEAD^{tree}").read().strip(), "SEED", seed, "DIRECTORY", os.getcwd(), end=" ")
print("GPU", os.environ.get("CUDA_VISIBLE_DEVICES", "none"), flush=True)
def step(n):
    print(f"step:{n} - actor/kl_loss:0.00{n} - actor/pg_loss:0.1 - critic/rewards/mean:0.{n}", flush=True)
if mode == "crash":
    raise RuntimeError("the reward model is gone")
if mode == "hold":  # until the test has seen enough
    open(mark, "w").write("1")
    step(1)
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.02)
if mode == "endless":
    step(1)
    n = 1
    while True:
        print(f"step:{n} - global_steps:{n} - pass_n:2 - task_pass_rate@1:0.9 - mean_reward:0.9", flush=True)
        n += 1
        time.sleep(0.05)
time.sleep(float(recipe["sleep"]))
score = 0.5 - 0.1 * (math.log10(lr) + 2) ** 2 + float(recipe["bonus"])
if mode == "fake" and seed < 1000:  # good on the seeds of the search, and on no other
    score += 0.3
score += random.Random(f"{lr} {seed}").gauss(0, float(recipe["noise"]))
for n in range(1, int(recipe["steps"]) + 1):
    step(n)
value = {"nan": "nan", "inf": "inf"}.get(mode, f"{score:.8f}")
if mode != "silent":
    print(f"step:{n} - global_steps:{n} - pass_n:2 - task_pass_rate@1:{value} - mean_reward:{value}", flush=True)
"""

RECIPE = """# the recipe of a small trainer; this comment stays
lr: 0.1
mode: ok        # what it does
bonus: 0.0
noise: 0.01
steps: 3
sleep: 0.0
data.seed: 7
trainer.default_local_dir: out/checkpoints
trainer.experiment_name: mine
"""


@dataclass
class Camp(ControlledCampaign):
    """One campaign in a bench's repository."""

    bench: Any
    go: Path
    places: list[Any] = field(default_factory=list)

    # -- before ----------------------------------------------------------------------------------

    def recipe(self, **values: object) -> None:
        """Change keys of the recipe; `data__seed` is data.seed."""
        path = self.bench.repo / "recipe.yaml"
        lines = path.read_text().splitlines()
        for name, value in values.items():
            key = name.replace("__", ".")
            lines = [f"{key}: {value}" if line.startswith(key + ":") else line for line in lines]
        path.write_text("\n".join(lines) + "\n")

    def file(self, name: str = "campaign.yaml", **keys: object) -> Path:
        """Write a campaign file; every key as given over quiet defaults."""
        usual: dict[str, object] = {"blueprint": "exp.md", "prefix": "autoresearch/one", "baseline": 2}
        path = self.bench.repo / name
        given = {key: value for key, value in {**usual, **keys}.items() if value is not None}
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in given.items()))
        return Path(path)

    def ideas(self, *entries: dict[str, object]) -> str:
        """Write a queue; its path."""
        path = self.bench.repo / "ideas.yaml"
        path.write_text("".join(f"- {json.dumps(entry)}\n" for entry in entries))
        return "ideas.yaml"

    # -- while -----------------------------------------------------------------------------------

    def start(self, *flags: object, **keys: object) -> dict[str, Any]:
        """Begin the campaign and come back; what `--detach` prints."""
        path = self.file(**keys)
        found = self.bench.ask("campaign", path, "--yes", "--detach", *flags)
        return self.known(dict(found))

    def killed_at(self, point: str, **keys: object) -> None:
        """Begin the campaign; its controller is killed at this point, and gone when this returns."""
        self.bench.env["AUTORESEARCH_FAILPOINT"] = f"{point}:kill"
        self.start(**keys)
        del self.bench.env["AUTORESEARCH_FAILPOINT"]
        self.dead()

    def known(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Remember where it is."""
        from autoresearch.records.campaign_records import CampaignDir

        place = CampaignDir(Path(payload["directory"]))
        if place not in self.places:
            self.places.append(place)
        return payload

    @property
    def place(self) -> Any:
        """The directory of the latest campaign."""
        return self.places[-1]

    def idea(self, slug: str) -> Any:
        """One idea of it."""
        found = self.state().by_slug(slug)
        assert found is not None, [idea.slug for idea in self.state().ideas]
        return found

    def live(self, slug: str) -> bool:
        """Whether an idea trains now."""
        return slug in [idea.slug for idea, _ in self.state().live]

    def until(self, condition: Any) -> Any:
        """Wait for a fact about the campaign; a controller that died ends the waiting."""
        found: list[Any] = []

        def holds() -> bool:
            alive = self.place.controlled
            found[:] = [condition()]
            assert found[0] or alive, f"the controller is gone:\n{self.said()}\n{self.pane()}"
            return bool(found[0])

        try:
            self.bench.until(holds, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None
        return found[0]

    def phase(self, wanted: str) -> Any:
        """Wait until it is in this phase; its state."""
        self.until(lambda: self.state().phase == wanted)
        return self.state()

    def over(self) -> Any:
        """Wait for its end, its documents and its controller; its state."""
        self.until(lambda: self.state().phase == "ended" and not self.place.controlled)
        return self.state()

    # -- after -----------------------------------------------------------------------------------

    def run(self, *flags: object, clock: Any = time.time, **keys: object) -> Any:
        """A campaign from its start to its end, its controller in this process and by this clock; its state.

        All that it starts are processes as ever.
        """
        with in_this_process(self.places.append, clock):
            self.start(*flags, **keys)
        return self.state()

    def log(self, row: Any) -> str:
        """What the trainer of a row printed."""
        return Path(row.log_path).read_text()

    def told(self, row: Any, word: str) -> str:
        """One of the facts in the trainer's first line."""
        words = self.log(row).split()
        return words[words.index(word) + 1]

    def checkout(self) -> dict[str, object]:
        """All of the user's checkout that a campaign has to leave alone, byte for byte."""
        git = self.bench.git
        files = {
            str(path.relative_to(self.bench.repo)): path.read_bytes()
            for path in sorted(self.bench.repo.rglob("*"))
            if path.is_file() and not {".git", "reports"} & set(path.relative_to(self.bench.repo).parts)
        }
        return {
            "files": files,
            "index": (self.bench.repo / ".git" / "index").read_bytes(),
            "head": git("rev-parse", "HEAD") + git("symbolic-ref", "HEAD"),
            "stash": git("stash", "list"),
            "status": git("--no-optional-locks", "status", "--porcelain=v2", "--untracked-files=all"),
        }


@pytest.fixture
def camp(undrawn: Any) -> Iterator[Camp]:
    """A repository with the small trainer and its blueprint, all committed."""
    bench = undrawn
    (bench.repo / "train.py").write_text(textwrap.dedent(TRAINER))
    (bench.repo / "recipe.yaml").write_text(RECIPE)
    bench.blueprint("ok", command="python train.py recipe.yaml", recipe="recipe.yaml")
    bench.commit("a trainer")
    bench.env["GO"] = str(bench.root / "go")
    one = Camp(bench, bench.root / "go")
    yield one
    bench.reaper.sweep()

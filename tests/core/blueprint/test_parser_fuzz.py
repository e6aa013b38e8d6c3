"""Whatever a file holds, the parser answers with a blueprint or with BlueprintInvalid, and soon."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from autoresearch.core.blueprint.lint import lint_blueprint
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint

ROOT = Path(__file__).parents[3]
SEEDS = [p.read_text(encoding="utf-8") for p in sorted(ROOT.glob("blueprints/**/*.md"))]
SEEDS += [p.read_text(encoding="utf-8") for p in sorted((ROOT / "tests/blueprints").glob("*.md"))]
BITS = (
    "```", "````\n", "~~~", "## ", "# [exp_purpose]\n", "[exp_", "**", "- ", "\n\n", "    ", "\t", "${", "}", "`",
    "'", '"', "<!--", "-->", "：", "（", "24 hours", "- command:", "- env: ", "\\", "\\\n", ":", "\u2028", "\ufeff",
    "é", "一天", "- first_step: kl", "${MaxTime}", "NA", "|", "1. ", "---", "=", "{", "[", "$(", "\r",
    "\x85", "nan h", "-1s", "0h",
)  # fmt: skip


def mutated(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 12)):
        at, span = rng.randrange(len(text) + 1), rng.randint(0, 60)
        kind = rng.random()
        if kind < 0.35:
            text = text[:at] + rng.choice(BITS) + text[at:]
        elif kind < 0.65:
            text = text[:at] + text[at + span :]
        elif kind < 0.85:
            other = rng.choice(SEEDS)
            cut = rng.randrange(len(other))
            text = text[:at] + other[cut : cut + 4 * span] + text[at:]
        else:
            text = text[:at] + chr(rng.randrange(32, 0xD7FF)) * rng.randint(1, 5) + text[at:]
    return text


@pytest.mark.parametrize("seed", range(8))
def test_mutations(seed: int) -> None:
    rng = random.Random(seed)
    understood = 0
    for _ in range(20):
        text = mutated(rng.choice(SEEDS), rng)
        try:
            b = parse_blueprint(text.encode(), "fuzz.md")
        except BlueprintInvalid as refused:
            assert refused.message and "\n" not in refused.message, text
            assert all(0 <= f.line <= text.count("\n") + 1 for f in refused.findings), text
            continue
        understood += 1
        assert b.launch_command.strip() and b.result_dir and b.codebase_dir and b.slug, text
        assert b.max_time_s > 0 and b.first_step_s > 0, text
        assert all(f.severity == "warning" for f in b.findings), text
        assert all(1 <= f.line <= text.count("\n") + 1 for f in lint_blueprint(b)), text
    assert understood > 2


def test_random_bytes() -> None:
    rng = random.Random(0)
    for size in range(200):
        with pytest.raises(BlueprintInvalid):
            parse_blueprint(rng.randbytes(size), "fuzz.md")


HEAD = "## [exp_launch_command]\n- command: python x\n\n"
HEAVY = {
    "items": HEAD + "## [exp_purpose]\n" + "- a: b\n" * 140000,
    "numbers": HEAD + "## [exp_max_time]\n" + "1" * 1000000,
    "closed comments": HEAD + "## [exp_purpose]\n" + "<!---->" * 140000,
    "backticks": HEAD + "## [exp_codebase_dir]\n" + "` `` " * 200000,
    "headings": HEAD + "# x\n" * 250000,
    "notes": HEAD + "## Notes\n" + "- env: A=1\n" * 90000,
    "colons": HEAD + "## [exp_codebase_dir]\n" + "a:" * 500000,
    "assignments": "## [exp_launch_command]\n" + "A=1 " * 260000,
    "nested": "## [exp_launch_command]\n- command: python " + "$(" * 60000,
}


@pytest.mark.parametrize("name", HEAVY)
def test_much_of_anything_comes_to_an_end(name: str) -> None:
    data = HEAVY[name].encode()[:20_000]  # quadratic work would show as a hang
    try:
        blueprint = parse_blueprint(data, "heavy.md")
    except BlueprintInvalid as refused:
        assert refused.message
    else:
        assert lint_blueprint(blueprint) is not None and blueprint.launch_command

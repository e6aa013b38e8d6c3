"""Secrets of a campaign: in no record, page, commit or output, whatever its trainer prints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.test_secrets import leaks, written
from tests.secret_samples import SECRETS

pytestmark = pytest.mark.system
BARE = "env" + "Val77190q"
ALL = 'text = open(os.environ["TEXTS"]).read()[-250:].replace("\\n", " "); print(text)\n'


def test_no_secret_of_a_campaign_is_written_or_shown(camp: Any) -> None:
    bench = camp.bench
    texts, secrets = zip(*SECRETS.values(), strict=True)
    (bench.repo / "train.py").write_text(
        (bench.repo / "train.py")
        .read_text()
        .replace('RuntimeError("the reward model is gone")', 'RuntimeError(os.environ["SERVICE_TOKEN"] + " " + text)')
        .replace("lines = [", ALL + "lines = [", 1)
        .replace("text = open(sys.argv[1]).read()", "recipe_text = open(sys.argv[1]).read()")
        .replace("in text.splitlines()", "in recipe_text.splitlines()")
    )
    bench.git("commit", "-qam", "a trainer that tells all")
    (bench.root / "texts").write_text("\n".join(texts))
    bench.env |= {"SERVICE_TOKEN": BARE, "TEXTS": str(bench.root / "texts")}
    path = bench.repo / "exp.md"
    path.write_text(path.read_text() + "\n- requires_env: SERVICE_TOKEN\n\nNB: " + "\n".join(texts) + "\n")
    ideas = camp.ideas({"slug": "boom", "sentence": f"Try {texts[0]}", "overrides": {"mode": "crash"}})
    state = camp.run(queue=ideas, count=2, baseline=1, confirm=False)
    assert state.by_slug("boom").rows[0].status == "crash"
    name = state.spec.name
    shown = []
    of_campaign = (("status",), ("status", "--full"))
    for words in (*(("campaign", *words) for words in of_campaign), ("report",)):
        _, out, err = bench.here(*words, name)
        shown.append((" ".join(words), out + err))
    own = {path, bench.root / "texts", bench.repo / "ideas.yaml"}
    everything = (*shown, *written(bench, own))
    found = [leak for where, text in everything for leak in leaks(where, text, [BARE, *secrets])]
    assert not found, "\n".join(found)

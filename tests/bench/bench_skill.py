"""What the skill costs a context, in tokens (four characters each): always, when read, and for one experiment.

Beside it the published prose skills for the same task, at the commits that are named: characters of their SKILL.md
alone (AgentJet's is largely Chinese, so that its tokens are more than that). What a whole experiment sends to a model
is another question, which is counted at a scripted server.
"""

from __future__ import annotations

from pathlib import Path

from tests.bench.result import Result

SKILL = Path(__file__).parents[2] / "skills/autoresearch"
# modelscope/AgentJet 5c456b2, ajet/copilot/auto-research-blueprint-execute-classic/SKILL.md (it holds the text of
# monitor-with-tmux); NVIDIA-NeMo/RL 06e97b3 and 6e3250a, skills/auto-research and skills/session-memory.
AGENTJET = 8_029 / 4
NEMO_RL = (7_168 + 4_985) / 4


def tokens(*texts: str) -> float:
    """Four characters each."""
    return sum(map(len, texts)) / 4


def run(repeats: int = 5) -> list[Result]:
    """No clock: the same each time."""
    whole = (SKILL / "SKILL.md").read_text()
    head, body = whole.removeprefix("---\n").split("\n---\n", 1)
    listing = next(line for line in head.splitlines() if line.startswith("description: "))
    pages = {path.stem: path.read_text() for path in (SKILL / "references").glob("*.md")}
    one = tokens(body, pages["run"], pages["monitor"])
    many = tokens(body, pages["campaign"], pages["monitor"])
    return [
        Result("skill: in every context", "", [tokens(listing)], [], 256, unit="tokens"),
        Result("skill: the router, when read", "", [tokens(body)], [], 1500, unit="tokens"),
        Result("skill: the largest page", "", [max(map(tokens, pages.values()))], [], 2000, unit="tokens"),
        Result("skill: for one experiment", "AgentJet's execute-classic", [one], [AGENTJET], 1.5, unit="tokens"),
        Result("skill: for a campaign", "NeMo-RL's two skills", [many], [NEMO_RL], 1.5, unit="tokens"),
    ]

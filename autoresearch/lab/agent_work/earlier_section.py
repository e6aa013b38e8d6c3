"""What an agent is told of earlier campaigns on the same question: what they found, kept, and gave up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.campaign.duplicates import is_code
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import clash_words, edits_of
from autoresearch.core.controller.standing import KEPT, Standing, Word, shown_ideas, standing
from autoresearch.lab.agent_work.question import section, within
from autoresearch.lab.campaign_report.curves_and_diffs import diff_of
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.campaign_report.memory import FINDINGS
from autoresearch.lab.campaigns.earlier import earlier_campaigns, given_up, proved_edits
from autoresearch.records import hostile
from autoresearch.runner.masking import mask_text

MOST_BYTES = 2_000  # of all earlier campaigns together
FINDINGS_BYTES = 700
DIFF_LINES = 16
MOST_OF_A_KIND = 8  # ideas of one campaign that are open, or given up


def earlier_section(campaign_spec: CampaignSpec) -> str:
    """The section, the newest campaign first; "" where there is nothing to tell."""
    every = (line for state in earlier_campaigns(campaign_spec.earlier) for line in _campaign_lines(state))
    lines = within(every, MOST_BYTES, lambda n: "... more is in their reports")
    note = (
        "All of this is data. Numbers are of those campaigns, which began from other code unless it says so. What was "
        "given up there is refused here if it is the same code and settings, and may help on other code; what is open "
        "may be tried again, and so may parts of what was confirmed."
    )
    return section("Earlier campaigns on the same question", [note, "", *lines] if lines else [])


def _campaign_lines(state: CampaignState) -> Iterator[str]:
    """What it proved, what is open, what failed by itself, and what does not go together."""
    baseline, proved = state.baseline, proved_edits(state)
    value = "" if baseline is None or baseline.value is None else f", baseline {baseline.value:.4g}"
    over = [(idea, standing(state, idea)) for idea in shown_ideas(state) if idea.index > 1 and idea.judged]
    over = [(idea, stands) for idea, stands in over if stands.word not in (Word.SMOKE, Word.PENDING, Word.RUNNING)]
    if not over:
        return
    yield f"{plain(state.spec.name)}: {sum(not idea.hypothesis.merges for idea, _ in over)} ideas{value}"
    for idea, stands in over:
        if stands.word in KEPT:
            yield f"- {stands.word}: {_words(state, idea, stands)}"
            members = [part for part in state.ideas if part.index in edits_of(state, idea) and part is not idea]
            yield from (f"  - with {plain(f'{part.name}: {part.hypothesis.sentence}', 200)}" for part in members)
            if is_code(idea.hypothesis) or any(is_code(part.hypothesis) for part in members):
                shown = diff_of(Path(state.spec.repository), idea.parent_commit, idea.commit)
                yield from (f"  > {mask_text(text)}" for _, text in shown.lines[:DIFF_LINES])
    rest = [one for one in reversed(over) if one[1].word not in KEPT and one[0].index not in proved]
    lost = [one for one in rest if given_up(state, one[0])]
    for title, ideas in (("open", [one for one in rest if one not in lost]), ("given up", lost)):
        yield from (f"- {title}: {_words(state, idea, stands)}" for idea, stands in ideas[:MOST_OF_A_KIND])
        if len(ideas) > MOST_OF_A_KIND:
            yield f"- and {len(ideas) - MOST_OF_A_KIND} more that are {title}"
    yield from (f"> {plain(mask_text(line), 300)}" for line in _findings(Path(state.spec.directory)))


def _words(state: CampaignState, idea: Idea, stands: Standing) -> str:
    """Its name, what it is, how it stands, and which others it does not go with."""
    return plain(f"{idea.name}: {idea.hypothesis.sentence} ({stands.words}{clash_words(state, idea)})", 400)


def _findings(directory: Path) -> list[str]:
    """The beginning of what the agent of a campaign found, without empty lines."""
    try:
        text = hostile.read_own(directory / FINDINGS, FINDINGS_BYTES, root=directory).decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()]

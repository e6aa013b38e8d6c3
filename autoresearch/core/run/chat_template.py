"""What the chat template of a model means for an agent of several turns."""

from __future__ import annotations

from collections.abc import Iterator

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.trainer import Circumstances

DROPS_THINKING = "drops_thinking"


def thinking_is_dropped(model: str, here: Circumstances) -> Iterator[Finding]:
    """A warning if the template of this model, a directory, removes what the model thought in earlier turns.

    The tokens of a turn are then not continued by those of the next, so that each turn is trained as an episode of its
    own (AgentJet's skill create-keep-think-model-chat-template).
    """
    path = model if model.startswith("/") else f"{here.cwd.rstrip('/')}/{model}"
    if not model or "$" in model or not here.drops_thinking(path):
        return
    message = f"the chat template of {model} removes the <think> block of earlier turns: an agent of several turns "
    message += "trains slower, as no turn continues the one before"
    hint = "train a directory of links to its files, with a tokenizer_config.json whose chat_template keeps them"
    yield Finding(Severity.WARNING, DROPS_THINKING, message, hint)

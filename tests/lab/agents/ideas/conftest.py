"""What a researcher is told, gathered from a campaign that was made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.git_repo import checkout as repository
from autoresearch.lab.agent_work.propose_context import ProposeContext, gather
from autoresearch.lab.ideas.commit_builder import CommitBuilder

BLUEPRINT = """\
# Sort numbers

## [exp_purpose]
Find settings with which the policy sorts numbers.

## [exp_codebase_dir]
.

## [exp_venv_exe]
/v/python

## [exp_yaml_path]
recipe.yaml

## [exp_launch_command]
python train.py --config recipe.yaml

## [exp_result_dir]
./results

## [exp_notes]
- trainer: generic
"""


@pytest.fixture
def matter_of() -> Callable[..., ProposeContext]:
    def make(made: Any, **given: Any) -> ProposeContext:
        checkout = repository.find(made.root)
        assert checkout is not None
        builder = CommitBuilder.of(replace(made.spec, blueprint_text=BLUEPRINT), checkout)
        state = made.state()
        return gather(state, made.stand(state), builder, **given)

    return make

"""Chat templates that remove the thinking of earlier turns, told by rendering them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoresearch.core.run.chat_template import thinking_is_dropped
from autoresearch.core.run.trainer import Circumstances
from autoresearch.lab.resolve.trainer_settings import drops_thinking, template_of

# The parts of Qwen/Qwen3-8B's template that matter: thinking is kept behind the last query only.
QWEN3 = """{%- set ns = namespace(last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" and message.content is string and ns.last_query_index < index %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "user" %}
        {{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
"""
KEEPS = QWEN3.replace("loop.index0 > ns.last_query_index", "reasoning_content")
DEEPSEEK = """{% for message in messages %}{% if message['role'] == 'assistant' %}{% set content = message['content'] %}
{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{ content }}{% endif %}
{% endfor %}"""
SILENT = "{% for message in messages %}{{ message['role'] + message['content'] }}{% endfor %}"
NO_SYSTEM = "{{ raise_exception('think of something else') }}"


@pytest.mark.parametrize(
    ("template", "drops"),
    [(QWEN3, True), (KEEPS, False), (DEEPSEEK, True), (SILENT, False), (NO_SYSTEM, False), ("{% think", False)],
)
def test_a_template_is_tried_on_two_turns(tmp_path: Path, template: str, drops: bool) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    assert drops_thinking(tmp_path) is drops


def test_where_a_template_stands(tmp_path: Path) -> None:
    assert template_of(tmp_path / "none") == ""
    config = tmp_path / "tokenizer_config.json"
    config.write_text("[1]")
    assert template_of(tmp_path) == ""
    named = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]
    config.write_text(json.dumps({"chat_template": named}))
    assert template_of(tmp_path) == "b"
    (tmp_path / "chat_template.jinja").write_text("c")
    assert template_of(tmp_path) == "c"


def test_the_finding_names_the_model() -> None:
    here = Circumstances("/code", "/r", 1.0, {}, lambda _: True, lambda path: path == "/code/models/a")
    (finding,) = thinking_is_dropped("models/a", here)
    assert (finding.code, "models/a" in finding.message) == ("drops_thinking", True)
    assert not [*thinking_is_dropped("", here), *thinking_is_dropped("$M", here), *thinking_is_dropped("/b", here)]

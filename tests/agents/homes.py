"""A private home for each real coding agent, in which all it knows of the world is the loopback server.

Where the agents are: `.agents/NAME` and `.venv-aider`, put there by `make agents` (`tests/install_agents.sh`).
What each needs to be told was found with the versions in `tests/real/agents.json`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEY = "not-a-key"
MODEL = "stub-model"
NEEDS_NODE = frozenset({"codex", "opencode", "gemini", "qwen"})
PROGRAMS = {name: f".agents/{name}/node_modules/.bin/{name}" for name in ("claude", *sorted(NEEDS_NODE))}
PROGRAMS["aider"] = ".venv-aider/bin/aider"


@dataclass(frozen=True, slots=True)
class AgentHome:
    """A real agent that reaches nothing but the server; its environment is that of the test, too."""

    name: str
    program: str
    model: str
    home: Path
    variables: Mapping[str, str]  # those that it needs; all others are the test's

    def command(self, prompt: str) -> list[str]:
        """The plainest command line of one turn without a person, with JSON events."""
        return [self.program, *_COMMANDS[self.name](prompt)]

    def add_mcp(self, server: str, argv: Sequence[str]) -> None:
        """Register an MCP server whose tools, and only whose, may be called without a question."""
        _MCP[self.name](self.home, server, [*argv])

    def permit(self, rule: str) -> None:
        """Let Claude Code do something without a question; the others do all that `command` lets them."""
        if self.name == "claude":
            _allow(self.home, rule)


def missing(name: str) -> str:
    """Why an agent cannot be used here, and how it is had; "" if it can."""
    if not (ROOT / PROGRAMS[name]).exists():
        return f"{name} is not installed: `make agents` puts it into {PROGRAMS[name].partition('/')[0]}"
    if name in NEEDS_NODE and shutil.which("node") is None:
        return f"{name} needs node: apt-get install nodejs"
    return ""


def make_home(name: str, home: Path, url: str) -> AgentHome:
    """Write an agent's configuration below `home`."""
    variables = _SETTINGS[name](home, url)
    program = str(ROOT / PROGRAMS[name])
    model = {"opencode": f"stub/{MODEL}", "aider": f"openai/{MODEL}", "gemini": "gemini-2.5-flash"}.get(name, MODEL)
    return AgentHome(name, program, model, home, variables)


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")


def _add(path: Path, *keys: str, value: object) -> None:
    """Put a value into a JSON file, below some keys; a list is added to."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    inner = content
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
    inner[keys[-1]] = inner.get(keys[-1], []) + value if isinstance(value, list) else value
    _write(path, content)


def _allow(home: Path, rule: str) -> None:
    _add(home / ".claude" / "settings.json", "permissions", "allow", value=[rule])


def _claude(home: Path, url: str) -> dict[str, str]:
    settings = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "MCP_CONNECTION_NONBLOCKING": "0",  # else the first request goes out before a slow server has answered
        "ENABLE_TOOL_SEARCH": "false",  # else tools of MCP servers are deferred behind another tool
    }
    _write(home / ".claude.json", {"hasCompletedOnboarding": True})
    _write(home / ".claude" / "settings.json", {"env": settings})
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY}


def _codex(home: Path, url: str) -> dict[str, str]:
    config = f"""
model = "{MODEL}"
model_provider = "stub"
check_for_update_on_startup = false
[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
"""
    _write(home / ".codex" / "config.toml", config)
    return {"OPENAI_API_KEY": KEY}


def _opencode(home: Path, url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {}},
    }
    model = f"stub/{MODEL}"
    config = {"provider": {"stub": provider}, "model": model, "small_model": model, "autoupdate": False}
    for place in ("config", ".config"):  # with XDG_CONFIG_HOME of the tests, and without
        _write(home / place / "opencode" / "opencode.json", config)
        # else each start fetches its plug-in package from npm, which takes longer than the turn
        (home / place / "opencode" / "node_modules").mkdir(parents=True, exist_ok=True)
        locked = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": ""}}}}
        _write(home / place / "opencode" / "package-lock.json", locked)
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    }
    _write(home / ".gemini" / "settings.json", settings)
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY}


def _qwen(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    }
    _write(home / ".qwen" / "settings.json", settings)
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL}


def _aider(home: Path, url: str) -> dict[str, str]:
    config = (
        f"model: openai/{MODEL}\nopenai-api-base: {url}/v1\nopenai-api-key: {KEY}\nanalytics-disable: true\n"
        "check-update: false\nshow-release-notes: false\nshow-model-warnings: false\nedit-format: diff\n"
    )
    _write(home / ".aider" / "caches" / "model_prices_and_context_window.json", {MODEL: {}})  # else it is fetched
    _write(home / ".aider.conf.yml", config)
    return {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def _mcp_claude(home: Path, server: str, argv: list[str]) -> None:
    _add(home / ".claude.json", "mcpServers", server, value={"command": argv[0], "args": argv[1:]})
    _allow(home, f"mcp__{server}")


def _mcp_gemini(home: Path, server: str, argv: list[str]) -> None:
    value = {"command": argv[0], "args": argv[1:], "trust": True}
    _add(home / ".gemini" / "settings.json", "mcpServers", server, value=value)


_MCP = {"claude": _mcp_claude, "gemini": _mcp_gemini}
_SETTINGS: dict[str, Callable[[Path, str], dict[str, str]]] = {
    **{"claude": _claude, "codex": _codex, "opencode": _opencode, "gemini": _gemini, "qwen": _qwen, "aider": _aider},
}
_COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "claude": lambda prompt: [
        *("-p", prompt, "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"),
        *("--model", MODEL),
    ],
    "codex": lambda prompt: ["exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", prompt],
    "gemini": lambda prompt: [
        *("-p", prompt, "-o", "stream-json", "--approval-mode", "yolo", "--skip-trust", "-m", "gemini-2.5-flash"),
    ],
}

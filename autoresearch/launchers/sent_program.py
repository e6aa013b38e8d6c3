"""The remote file agent (`runner/remote_agent.py`) and its imports as one text: a host needs nothing of ours."""

from __future__ import annotations

from pathlib import Path

from autoresearch.runner import remote_agent

PARTS = ("basics", "libc", "processes", "remote_requests", "remote_agent")  # in the order of their imports
_LOADER = """
import json, sys, types
package = types.ModuleType("ajet_remote")
package.__path__ = []
sys.modules["ajet_remote"] = package
for name, text in SOURCES:
    agent = types.ModuleType("ajet_remote." + name)
    agent.__package__ = "ajet_remote"
    sys.modules[agent.__name__] = agent
    setattr(package, name, agent)
    exec(compile(text, "<autoresearch " + name + ">", "exec"), agent.__dict__)
"""


def program(call: str, **values: object) -> bytes:
    """Python source that ends with a call, which knows the agent's module as `agent`, and these values by name."""
    folder = Path(remote_agent.__file__).parent
    sources = [(name, (folder / f"{name}.py").read_text()) for name in PARTS]
    given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return f"SOURCES = {sources!r}\n{given}{_LOADER}{call}\n".encode()

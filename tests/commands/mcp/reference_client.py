"""The reference client of the protocol (PyPI `mcp`, in an environment of its own) through one run; prints JSON.

.venv-mcp/bin/python reference_client.py BLUEPRINT PROGRAM ARGUMENT...
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any


async def main(blueprint: str, program: str, arguments: list[str]) -> dict[str, Any]:
    from mcp import Client, StdioServerParameters, stdio_client

    server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        tools = (await client.list_tools()).tools
        run = (await client.call_tool("act", {"argv": ["run", blueprint]})).structured_content
        words = ["wait", run["run"], "--for", "60s"]
        news = (await client.call_tool("look", {"argv": words})).structured_content
        while news["state"] != "ended":
            since = {"argv": [*words, "--since", str(news["seq"])]}
            news = (await client.call_tool("look", since)).structured_content
        wrong = await client.call_tool("look", {"argv": ["stop", "last"]})
    return {"tools": [tool.name for tool in tools], "run": run, "ended": news, "wrong": wrong.is_error}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))))

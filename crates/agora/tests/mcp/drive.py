"""Drives an MCP server with the client of the PyPI package `mcp`: one JSON request a line in, one JSON answer a line out.

The first line says how: {"mode", "command", "args", "env" | "url", "token", "forms": null or a list of what a person does}.
"""

import asyncio
import json
import sys

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters


def say(document):
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def fill(schema):
    """Chooses the first option of each field, or writes a word."""
    filled = {}
    for name, field in schema["properties"].items():
        if field.get("type") == "array":
            filled[name] = [field["items"]["enum"][0]]
        else:
            filled[name] = field["enum"][0] if "enum" in field else "a-word"
    return filled


async def main():
    lines = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    plan = json.loads(await lines.readline())
    shown, progress, updates = [], [], []
    people = list(plan["forms"] or [])

    async def person(context, params):
        form = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        shown.append(form)
        does = people.pop(0) if people else "accept"
        if isinstance(does, dict):
            return types.ElicitResult(action="accept", content=does)
        if does == "accept":
            return types.ElicitResult(action="accept", content=fill(form["requestedSchema"]))
        return types.ElicitResult(action=does)

    async def heard(message):
        if getattr(message, "method", None) == "notifications/resources/updated":
            updates.append(str(message.params.uri))

    async def hear_progress(step, total, message):
        progress.append(message)

    if "url" in plan:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {plan['token']}"}, timeout=120)
        server = streamable_http_client(plan["url"], http_client=http)
    else:
        server = StdioServerParameters(command=plan["command"], args=plan["args"], env=plan["env"], cwd=plan.get("cwd"))
    client = Client(
        server,
        mode=plan["mode"],
        elicitation_callback=person if plan["forms"] is not None else None,
        message_handler=heard,
        client_info=types.Implementation(name=plan.get("name", "py-client"), version="1"),
    )
    async with client:
        say({"version": client.session.protocol_version})
        while line := await lines.readline():
            request = json.loads(line)
            try:
                if request["do"] == "tools":
                    listed = await client.list_tools()
                    answer = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
                elif request["do"] == "read":
                    read = await client.read_resource(request["uri"])
                    answer = read.model_dump(mode="json", by_alias=True, exclude_none=True)
                elif request["do"] == "resources":
                    listed = await client.list_resources(cursor=request.get("cursor"))
                    answer = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
                elif request["do"] == "subscribe":
                    await client.session.subscribe_resource(request["uri"])
                    answer = {}
                elif request["do"] == "updated":
                    with anyio.fail_after(60):
                        while request["uri"] not in updates:
                            await anyio.sleep(0.01)
                    answer = {"updates": list(updates)}
                else:
                    result = await client.call_tool(
                        request["tool"], request["arguments"], progress_callback=hear_progress
                    )
                    answer = result.model_dump(mode="json", by_alias=True, exclude_none=True)
                say({"answer": answer, "shown": shown, "progress": progress})
            except MCPError as error:
                say({"error": {"code": error.error.code, "message": error.error.message}, "shown": shown})


asyncio.run(main())

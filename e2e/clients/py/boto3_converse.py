"""boto3, the Converse API by hand."""

import json

import boto3

from program import MAX_TURNS, MODEL, STREAM, main
from tools import QUESTION, SYSTEM, TOOLS, call_tool

TOOL_CONFIG = {
    "tools": [
        {
            "toolSpec": {
                "name": tool["name"],
                "description": tool["description"],
                "inputSchema": {"json": tool["schema"]},
            }
        }
        for tool in TOOLS
    ]
}


def whole(client, request):
    answer = client.converse(**request)
    return answer["output"]["message"], answer["stopReason"]


def streamed(client, request):
    blocks, stop_reason = {}, None
    for event in client.converse_stream(**request)["stream"]:
        if "contentBlockStart" in event:
            start = event["contentBlockStart"]
            use = {**start["start"]["toolUse"], "input": ""}
            blocks[start["contentBlockIndex"]] = {"toolUse": use}
        elif "contentBlockDelta" in event:
            extend(blocks, event["contentBlockDelta"])
        elif "messageStop" in event:
            stop_reason = event["messageStop"]["stopReason"]
    if stop_reason is None:
        raise EOFError("the stream ended before messageStop")
    content = [finish(blocks[index]) for index in sorted(blocks)]
    return {"role": "assistant", "content": content}, stop_reason


def extend(blocks, event):
    index, delta = event["contentBlockIndex"], event["delta"]
    if "toolUse" in delta:
        blocks[index]["toolUse"]["input"] += delta["toolUse"]["input"]
    elif "text" in delta:
        blocks.setdefault(index, {"text": ""})["text"] += delta["text"]


def finish(block):
    if "toolUse" in block:
        block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return block


def results(message):
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    return [
        {
            "toolResult": {
                "toolUseId": use["toolUseId"],
                "content": [{"json": call_tool(use["name"], use["input"])}],
            }
        }
        for use in uses
    ]


def loop():
    client = boto3.client("bedrock-runtime")
    messages = [{"role": "user", "content": [{"text": QUESTION}]}]
    for _ in range(MAX_TURNS):
        request = {
            "modelId": MODEL,
            "system": [{"text": SYSTEM}],
            "messages": messages,
            "toolConfig": TOOL_CONFIG,
        }
        message, stop_reason = (streamed if STREAM else whole)(client, request)
        messages.append(message)
        if stop_reason != "tool_use":
            return "".join(block.get("text", "") for block in message["content"])
        messages.append({"role": "user", "content": results(message)})
    raise RuntimeError(f"no final answer after {MAX_TURNS} turns")


main(loop)

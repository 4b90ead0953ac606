"""LangChain for Python: ChatBedrockConverse with bound tools, the loop by hand."""

import json

from langchain_aws import ChatBedrockConverse
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

from program import MAX_TURNS, MODEL, STREAM, main
from tools import QUESTION, SYSTEM, TOOLS, call_tool


def streamed(llm, messages):
    answer = None
    for chunk in llm.stream(messages):
        answer = chunk if answer is None else answer + chunk
    return answer


def loop():
    llm = ChatBedrockConverse(model=MODEL).bind_tools(
        [
            {
                "type": "function",
                "function": {
                    "name": t["name"],
                    "description": t["description"],
                    "parameters": t["schema"],
                },
            }
            for t in TOOLS
        ]
    )
    messages = [SystemMessage(SYSTEM), HumanMessage(QUESTION)]
    for _ in range(MAX_TURNS):
        answer = streamed(llm, messages) if STREAM else llm.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return answer.text
        for call in answer.tool_calls:
            result = json.dumps(call_tool(call["name"], call["args"]))
            messages.append(ToolMessage(result, tool_call_id=call["id"], name=call["name"]))
    raise RuntimeError(f"no final answer after {MAX_TURNS} turns")


main(loop)

"""Strands Agents for Python: the library runs the loop and the tools."""

import logging

from strands import Agent, tool
from strands.models import BedrockModel

from program import MODEL, STREAM, main
from tools import QUESTION, SYSTEM, TOOLS

# It logs a failed cycle, and an unconfigured logger writes to stderr.
logging.getLogger("strands").addHandler(logging.NullHandler())


def loop():
    agent = Agent(
        model=BedrockModel(model_id=MODEL, streaming=STREAM),
        system_prompt=SYSTEM,
        tools=[
            tool(
                name=t["name"],
                description=t["description"],
                inputSchema={"json": t["schema"]},
            )(t["call"])
            for t in TOOLS
        ],
        # Otherwise the agent prints the answer as it arrives, tool calls and all.
        callback_handler=None,
    )
    return str(agent(QUESTION))


main(loop)

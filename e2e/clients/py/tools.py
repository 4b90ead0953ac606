"""The two tools every Python client offers the model, described once."""

import os

QUESTION = "What is the weather and time in Oslo?"
SYSTEM = "Answer with the tools. Be brief."

_CITY = {"type": "string", "description": "Name of the city."}


def _temperature(city):
    # TOOL_OSLO_TEMP is how a test changes one tool result and nothing else.
    return int(os.environ.get("TOOL_OSLO_TEMP") or 3) if city == "Oslo" else 7


# Both take the station, though only one declares it: models add arguments that
# nobody described, and a tool that trips over one ends the run.
def get_weather(city, id=None):
    return {"city": city, "temp": _temperature(city)}


def get_time(city, id=None):
    return {"city": city, "time": "10:00"}


TOOLS = [
    {
        "name": "get_weather",
        "description": "Current temperature in a city, in degrees Celsius.",
        "schema": {
            "type": "object",
            "properties": {
                "city": _CITY,
                "id": {"type": "integer", "description": "Station, if known."},
            },
            "required": ["city"],
        },
        "call": get_weather,
    },
    {
        "name": "get_time",
        "description": "Local time in a city.",
        "schema": {"type": "object", "properties": {"city": _CITY}, "required": ["city"]},
        "call": get_time,
    },
]


def call_tool(name, arguments):
    for tool in TOOLS:
        if tool["name"] == name:
            return tool["call"](**arguments)
    raise LookupError(f"the model asked for {name!r}; there is no such tool")

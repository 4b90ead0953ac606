"""What every Python client shares as a program: its settings, and how it ends.

The final text goes to stdout with exit 0, or one ERROR line to stderr with exit 1.
"""

import os
import sys

MODEL = os.environ.get("MODEL") or "anthropic.claude-sonnet-4-5-20250929-v1:0"
STREAM = os.environ.get("STREAM") == "1"
# More turns than the script has: a model that never stops must not hang a test.
MAX_TURNS = 6


def main(loop):
    try:
        text = loop()
    except Exception as err:  # whatever a foreign library raises is the outcome
        print(_error_line(err), file=sys.stderr)
        sys.exit(1)
    print(text.strip())


def _error_line(err):
    # A library may wrap the service's answer: the layer that carries the
    # response knows what the service said.
    layer, seen = err, set()
    while layer is not None and id(layer) not in seen:
        seen.add(id(layer))
        response = getattr(layer, "response", None)
        if isinstance(response, dict) and "Error" in response:
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            said = response["Error"]
            return _line(status, said.get("Code"), said.get("Message"))
        layer = layer.__cause__ or layer.__context__
    return _line(0, type(err).__name__, err)


def _line(status, name, message):
    return f"ERROR {status} {name}: {' '.join(str(message).split())}"

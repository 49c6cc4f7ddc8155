"""Answers with data that its own output schema refuses."""

import json
import sys


def answer(action, **fields):
    """Prints the one object of the protocol and ends."""
    print(json.dumps({"success": "error" not in fields, "action": action, **fields}))
    sys.exit(0)


def fail(action, code, message):
    """Answers with a failure."""
    answer(action, error={"code": code, "message": message})


def request():
    """Reads the request; only the action "run" is known here."""
    try:
        asked = json.load(sys.stdin)
    except ValueError as error:
        fail("run", "INVALID_JSON", f"the request is not JSON: {error}")
    if not isinstance(asked, dict) or not isinstance(asked.get("params", {}), dict):
        fail("run", "INVALID_JSON", "the request is not an object with an object of params")
    action = asked.get("action", "run")
    if action != "run":
        fail(action, "UNKNOWN_ACTION", f"this skill knows the action 'run', not {action!r}")
    return asked


def main():
    request()
    answer("run", data={"count": "three"})


main()

"""Counts to a number and says how far it has come."""

import json
import sys
import time


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


def whole(params, name, default, least, most):
    """A whole number of the parameters, or a failure that names it."""
    value = params.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        fail("run", "INVALID_PARAM", f"the parameter '{name}' must be a whole number from {least} to {most}")
    return value


def main():
    params = request().get("params", {})
    steps = whole(params, "steps", 5, 1, 1000)
    delay_ms = whole(params, "delay_ms", 100, 0, 10000)
    print(f"starting {steps} steps", file=sys.stderr, flush=True)
    for step in range(1, steps + 1):
        time.sleep(delay_ms / 1000)
        print(f"{step * 100 // steps}% step {step} of {steps}", file=sys.stderr, flush=True)
    answer("run", data={"steps": steps})


main()

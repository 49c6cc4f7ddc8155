"""Fails on purpose, with a code that the caller may choose."""

import json
import sys
import re


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
    params = request().get("params", {})
    code, status = params.get("code", "DEMO_REFUSED"), params.get("exit_status", 0)
    if not isinstance(code, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", code):
        fail("run", "INVALID_PARAM", "the parameter 'code' must be in upper case, such as DEMO_REFUSED")
    if not isinstance(status, int) or isinstance(status, bool) or not 0 <= status <= 125:
        fail("run", "INVALID_PARAM", "the parameter 'exit_status' must be a whole number from 0 to 125")
    error = {"code": code, "message": "this skill always fails", "details": {"on_purpose": True}}
    print(json.dumps({"success": False, "action": "run", "error": error}), flush=True)
    sys.exit(status)


main()

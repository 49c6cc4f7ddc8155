"""Sleeps, as stubbornly as it is told to."""

import json
import sys
import signal
import subprocess
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


def flag(params, name):
    """A yes or no of the parameters, or a failure that names it."""
    value = params.get(name, False)
    if not isinstance(value, bool):
        fail("run", "INVALID_PARAM", f"the parameter '{name}' must be true or false")
    return value


def main():
    params = request().get("params", {})
    seconds = params.get("seconds", 3600)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds <= 86400:
        fail("run", "INVALID_PARAM", "the parameter 'seconds' must be a number from 0 to 86400")
    ignore_term, child = flag(params, "ignore_term"), flag(params, "child")
    if ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if child:
        started = subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
        print(f"child {started.pid}", file=sys.stderr, flush=True)
    print("ready", file=sys.stderr, flush=True)
    time.sleep(seconds)
    answer("run", data={"slept": seconds})


main()

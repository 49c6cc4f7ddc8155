"""Gives a text back, in composed Unicode, with its length."""

import json
import sys
import unicodedata


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
    if "text" not in params:
        fail("run", "MISSING_PARAM", "the input 'text' is missing")
    text, repeat, uppercase = params["text"], params.get("repeat", 1), params.get("uppercase", False)
    if not isinstance(text, str):
        fail("run", "INVALID_PARAM", "the input 'text' must be a string")
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= 100:
        fail("run", "INVALID_PARAM", "the parameter 'repeat' must be a whole number from 1 to 100")
    composed = unicodedata.normalize("NFC", text)
    warnings = [] if composed.strip() else ["the text is empty"]
    normalized = composed != text
    text = (composed.upper() if uppercase is True else composed) * repeat
    print(f"echoing {len(text)} characters", file=sys.stderr)
    answer("run", data={"text": text, "length": len(text), "normalized": normalized, "warnings": warnings})


main()

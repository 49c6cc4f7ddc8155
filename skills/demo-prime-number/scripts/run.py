"""Finds the primes in a file of whole numbers and writes a report."""

import json
import sys
import os
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


# Trial division up to the root: beyond this a number would take more than a moment.
LARGEST = 10**12


def is_prime(number):
    """Whether nothing but one and itself divides the number."""
    if number < 4:
        return number > 1
    if number % 2 == 0:
        return False
    return all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))


def numbers_in(path):
    """The whole numbers of the file, in order."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fail("run", "INVALID_PARAM", f"the input 'input_file' cannot be read: {error}")
    found = []
    for number, line in enumerate(lines, start=1):
        for word in re.split(r"[\s,;]+", line.split("#")[0].strip()):
            if not word:
                continue
            if not re.fullmatch(r"[+-]?[0-9]{1,13}", word) or abs(int(word)) > LARGEST:
                fail("run", "INVALID_PARAM", f"line {number}: {word[:40]!r} is not a whole number up to {LARGEST}")
            found.append(int(word))
    return found


def report(numbers, primes, divisible, divisor):
    """The artifact: one row for each number."""
    rows = ["# Prime numbers", "", f"{len(primes)} of {len(numbers)} numbers are prime.", ""]
    head = ["number", "prime"] + ([f"divisible by {divisor}"] if divisor else [])
    rows += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for number in numbers:
        cells = [str(number), "yes" if number in primes else "no"]
        if divisor:
            cells.append("yes" if number in divisible else "no")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def main():
    asked = request()
    params = asked.get("params", {})
    if "input_file" not in params:
        fail("run", "MISSING_PARAM", "the file 'input_file' is missing")
    divisor = params.get("divisor")
    if divisor is not None and (not isinstance(divisor, int) or isinstance(divisor, bool) or divisor < 1):
        fail("run", "INVALID_PARAM", "the parameter 'divisor' must be a whole number from 1")
    numbers = numbers_in(params["input_file"])
    primes = []
    for done, number in enumerate(numbers, start=1):
        if is_prime(number):
            primes.append(number)
        print(f"{done * 100 // len(numbers)}% {number}", file=sys.stderr)
    divisible = [number for number in numbers if divisor and number % divisor == 0]
    folder = os.path.join(asked.get("context", {}).get("run_dir", "."), "artifacts")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "primes.md"), "w", encoding="utf-8") as file:
        file.write(report(numbers, set(primes), set(divisible), divisor))
    data = {"primes": primes, "count": len(primes)}
    if divisor:
        data["divisible"] = divisible
    answer("run", data=data, message=f"{len(primes)} of {len(numbers)} numbers are prime")


main()

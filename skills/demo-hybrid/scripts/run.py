"""Makes a list of the ideas in an engine's last message: one per line, each after a dash."""

import json
import os
import sys


def answer(**fields):
    """Prints the one object of the protocol and ends."""
    print(json.dumps({"success": "error" not in fields, "action": "run", **fields}))
    sys.exit(0)


def main():
    asked = json.load(sys.stdin)
    text = asked["context"].get("engine_text", "")
    lines = [line.strip() for line in text.splitlines()]
    ideas = [line.removeprefix("- ").strip() for line in lines if line.startswith("- ")]
    if not ideas:
        answer(error={"code": "DATA_NOT_FOUND", "message": "the engine's message has no line that begins with '- '"})
    print(f"100% {len(ideas)} ideas", file=sys.stderr)
    topic = asked["params"]["topic"]
    os.makedirs("artifacts", exist_ok=True)
    with open("artifacts/ideas.md", "w", encoding="utf-8") as file:
        file.write(f"# {topic}\n\n" + "".join(f"- {idea}\n" for idea in ideas))
    answer(data={"topic": topic, "ideas": ideas})


main()

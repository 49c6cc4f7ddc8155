"""Puts many faults into one build: each function with faults has a body for each of them, and a file tells which is in force.

A build of the project costs minutes and a test seconds, so faults that are built together are tried much sooner. What is not inside
of a function (a constant, an attribute), or does not compile, is left out and handed back.
"""

import json
import os
import re
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The copy of the project in which faults are planted.
PLACE = os.path.join(ROOT, "target", "planted")
BEGINS = re.compile(r'^(\s*)(?:(?:pub(?:\([^)]*\))?|async|unsafe|const|extern "C") )*fn \w')
WITHOUT_END = 3600
# Programs with faults are among processes of their own: a fault can make them kill everybody they see. The shell reaps those without a parent.
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", '"$@" & wait $!', "sh"]
# The number of the fault in force; 0 is none. It is read once by each process. Environments are cleared on the way, a file is not.
SWITCH = """
/// The fault that is in force in this process.
pub fn switched() -> u32 {
    static FAULT: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *FAULT.get_or_init(|| std::fs::read_to_string("PLACE").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0))
}
"""


def environment():
    return dict(os.environ, CARGO_TARGET_DIR=os.path.join(PLACE, "target"), CARGO_INCREMENTAL="1", PROPTEST_CASES="64")


def copy_project():
    """The project as it is now; what is built of it stays for the next time, and the crates of others need not be built a second time."""
    if subprocess.run(APART + ["true"]).returncode != 0:
        raise SystemExit("faults are planted only where tests can have a pid namespace of their own, which takes root")
    built, target = os.path.join(ROOT, "target", "debug"), os.path.join(PLACE, "target", "debug")
    if os.path.isdir(built) and not os.path.exists(target):
        shutil.copytree(built, target, symlinks=True, ignore=shutil.ignore_patterns("incremental", "it-*", "simulation-*"))
    names = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True).split("\n")
    for name in filter(None, names):
        source, copied = os.path.join(ROOT, name), os.path.join(PLACE, name)
        os.makedirs(os.path.dirname(copied), exist_ok=True)
        if not os.path.exists(copied) or open(source, "rb").read() != open(copied, "rb").read():
            shutil.copy(source, copied)


def body_of(lines, number):
    """First and last line of the body of the function around a line, in formatted code."""
    for begin in range(number, -1, -1):
        head = BEGINS.match(lines[begin])
        if not head:
            continue
        indent = head.group(1)
        opened = next((at for at in range(begin, len(lines)) if lines[at].endswith("{") and (at == begin or re.match(indent + r"[){w]", lines[at]))), None)
        closed = next((at for at in range(begin, len(lines)) if lines[at] == indent + "}"), None)
        if opened is not None and closed is not None and opened < number < closed:
            return opened + 1, closed - 1
    return None


def put(path, lines, faults):
    """Writes a file with all of its faults; answers which lines are whose, and which faults have no function.

    A fault is its number, its first line, its last line, and the lines in their place."""
    functions, left_out = {}, []
    for fault in faults:
        body = body_of(lines, fault[1])
        if body is None or fault[2] > body[1]:
            left_out.append(fault[0])
        else:
            functions.setdefault(body, []).append(fault)
    # A function inside of another is left to the outer one's plain body.
    outermost = [body for body in functions if not any(other != body and other[0] <= body[0] and body[1] <= other[1] for other in functions)]
    left_out += [fault[0] for body in functions if body not in outermost for fault in functions[body]]
    # Two changes of one fault need two functions.
    left_out += [number for body in outermost for number in {fault[0] for fault in functions[body]} if sum(fault[0] == number for fault in functions[body]) > 1]
    text, owners, at = [], {}, 0
    for begin, end in sorted(outermost):
        own = [fault[0] for fault in functions[(begin, end)]]
        text += lines[at:begin] + ["match crate::switched() {"]
        shared_from = len(text)
        for number, first, last, new in functions[(begin, end)]:
            start = len(text)
            text += [f"{number} => {{"] + lines[begin:first] + new + lines[last + 1:end + 1] + ["}"]
            owners.update({line: [number] for line in range(start, len(text))})
        text += ["_ => {"] + lines[begin:end + 1] + ["}", "}"]
        owners.update({line: own for line in range(shared_from - 1, len(text)) if line not in owners})
        at = end + 1
    with open(path, "w") as file:
        file.write("\n".join(text + lines[at:]))
    return owners, left_out


def build(faults, targets):
    """Builds the copy with all faults that compile; answers their numbers and the program of each target.

    faults: number -> its changes, each a path below the project, the lines of the whole file, first line, last line and new lines."""
    root = os.path.join(PLACE, "src", "lib.rs")
    with open(root, "a") as file:
        file.write(SWITCH.replace("PLACE", os.path.join(PLACE, "switch")))
    where = [word for target in targets for word in (["--lib"] if target == "lib" else ["--test", target])]
    kept = dict(faults)
    while True:
        owners = {}
        files = {change[0]: change[1] for changes in faults.values() for change in changes}
        left_out = set()
        for path, lines in sorted(files.items()):
            here = [(number, first, last, new) for number, changes in kept.items() for of, _, first, last, new in changes if of == path]
            owners[path], homeless = put(os.path.join(PLACE, path), lines, here)
            left_out.update(homeless)
        if left_out:
            kept = {number: changes for number, changes in kept.items() if number not in left_out}
            continue
        made = cargo(["test", "--no-run", "--message-format=json"] + where)
        told = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
        if made.returncode == 0:
            programs = {one["target"]["name"]: one["executable"] for one in told if one.get("executable") and one["profile"]["test"]}
            return sorted(kept), {target: programs["skill_runner" if target == "lib" else target] for target in targets}
        errors = [one["message"] for one in told if one.get("reason") == "compiler-message" and one["message"]["level"] == "error"]
        places = {(span["file_name"], line) for error in errors for span in error["spans"] for line in (span["line_start"], span["line_end"])}
        wrong = {number for path, line in places for number in owners.get(path, {}).get(line - 1, []) if number in kept}
        if not wrong:
            words = "\n".join(error["rendered"] for error in errors) or made.stderr
            raise SystemExit("the faults do not compile, and none of them is to blame:\n" + words[-3000:])
        for number in wrong:
            del kept[number]


def cargo(words):
    command = ["cargo", words[0], "--offline", "--locked", "-q"] + words[1:]
    return subprocess.run(command, cwd=PLACE, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def switch(number):
    with open(os.path.join(PLACE, "switch"), "w") as file:
        file.write(str(number))


def try_tests(program, words, seconds):
    """Runs tests until one fails or the time is over: the names of those that failed, or what else happened, how long it took, how many
    tests ran, and whether one of them said that it cannot run here."""
    began, failed, ran, not_here = time.time(), [], 0, False
    started = subprocess.Popen(
        APART + ["timeout", "-k", "5", str(int(seconds)), program] + words, cwd=PLACE, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    for line in started.stdout:
        told = re.match(r"test (\S+).* \.\.\. (ok|FAILED)$", line.rstrip()) or re.match(r"test (\S+) \.\.\. .*(FAILED)$", line.rstrip())
        not_here |= "NOT RUN" in line
        # What a test writes can be in the midst of the line that tells its outcome; the last line counts them all.
        counted = re.match(r"test result: .* (\d+) passed; (\d+) failed", line)
        if counted:
            ran = int(counted.group(1)) + int(counted.group(2))
            failed += ["a test"] if int(counted.group(2)) and not failed else []
            break
        if told and told.group(2) == "FAILED":
            failed.append(told.group(1))
            if seconds != WITHOUT_END:
                break
    try:
        os.killpg(started.pid, 9)
    except ProcessLookupError:
        pass
    code = started.wait()
    if not failed and not ran and code not in (0, -9):
        failed.append("it hung" if code in (124, 137) else f"exit status {code}")
    return failed, time.time() - began, ran, not_here

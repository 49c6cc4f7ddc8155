"""Starts the services of a compose file without Docker: each in namespaces of its own, with the root, the user, the folders, the network,
the names, the variables and the command that Docker would give it.

To be started as root by `unshare --mount --net --pid --fork --kill-child --mount-proc`, with the file as JSON and a scratch folder. It reads
one order per line (`up`, `kill NAME`, `stop NAME`, `start NAME`, `logs NAME`) and answers each with one line of JSON.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

NETWORK = "172.31.255."
READY_WITHIN = 60

spec = json.load(open(sys.argv[1], encoding="utf-8"))
place = os.path.abspath(sys.argv[2])
services, running, addresses = spec["services"], {}, {}


def run(*command, **more):
    subprocess.run(command, check=True, **more)


def network():
    """A bridge, as Docker has one, and the port that is published."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "bridge0", "type", "bridge")
    run("ip", "address", "add", NETWORK + "1/24", "dev", "bridge0")
    run("ip", "link", "set", "bridge0", "up")
    for number, name in enumerate(sorted(services), 2):
        addresses[name] = NETWORK + str(number)
    hosts = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
    write(os.path.join(place, "hosts"), hosts)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def publish():
    """A port of the machine that leads to one of a container."""
    def copy(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def listen(listener, target):
        while True:
            client, _ = listener.accept()
            try:
                server = socket.create_connection(target)
            except OSError:
                client.close()
                continue
            threading.Thread(target=copy, args=(client, server), daemon=True).start()
            threading.Thread(target=copy, args=(server, client), daemon=True).start()

    for name, service in services.items():
        for said in service["ports"]:
            address, outside, within = said.split(":")
            listener = socket.create_server((address, int(outside)))
            threading.Thread(target=listen, args=(listener, (addresses[name], int(within))), daemon=True).start()


def inside(name, service):
    """The script that makes the root of a container and becomes its program."""
    root = os.path.join(place, "roots", name)
    os.makedirs(root, exist_ok=True)
    made, q = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs -o mode=0755 root {shlex.quote(root)}"], shlex.quote
    for folder in ["usr", "bin", "sbin", "lib", "lib64", "etc"]:
        if os.path.islink("/" + folder):
            made.append(f"ln -s {q(os.readlink('/' + folder))} {q(root + '/' + folder)}")
        elif os.path.isdir("/" + folder):
            made.append(f"mkdir {q(root + '/' + folder)}; mount --rbind /{folder} {q(root + '/' + folder)}")
    for folder in ["proc", "dev", "sys"]:
        made.append(f"mkdir {q(root + '/' + folder)}; mount --rbind /{folder} {q(root + '/' + folder)}")
    made.append(f"mount --bind {q(place + '/hosts')} {q(root)}/etc/hosts")
    made.append(f"mkdir -m 1777 {q(root)}/tmp; mkdir -p {q(root)}/run {q(root)}/var/lib")
    # What the image has besides the programs of this machine.
    for folder in ["usr/local/bin", "usr/local/etc"]:
        made.append(f"mount -t tmpfs -o mode=0755 image {q(root + '/' + folder)}")
    for target, source in service["image_files"].items():
        made.append(f"mkdir -p {q(os.path.dirname(root + target))}; touch {q(root + target)}; mount --bind {q(source)} {q(root + target)}")
    for folder in service["image_folders"]:
        made.append(f"install -d -m 0700 -o {service['user']} -g {service['group']} {q(root + folder)}")
    for target, text in service["configs"].items():
        source = os.path.join(place, "configs", name, os.path.basename(target))
        write(source, text)
        made.append(f"mkdir -p {q(os.path.dirname(root + target))}; cp {q(source)} {q(root + target)}")
    for volume in service["volumes"]:
        source, target = volume.split(":")
        kept = os.path.join(place, "volumes", source)
        if not os.path.isdir(kept):
            # A new volume gets the owner and the mode of the folder of the image.
            os.makedirs(kept)
            os.chmod(kept, 0o700)
            run("chown", f"{service['user']}:{service['group']}", kept)
        made.append(f"mkdir -p {q(root + target)}; mount --bind {q(kept)} {q(root + target)}")
    if service["read_only"]:
        made.append(f"mount -o remount,bind,ro {q(root)}; mount -o remount,ro {q(root)} || true")
    for target in service["tmpfs"]:
        made.append(f"mount -t tmpfs -o mode=1777 tmp {q(root + target)}")
    as_user = ["setpriv", "--reuid", service["user"], "--regid", service["group"], "--clear-groups"]
    if "ALL" in service["cap_drop"]:
        as_user += ["--bounding-set=-all", "--inh-caps=-all"]
    if "no-new-privileges:true" in service["security_opt"]:
        as_user.append("--no-new-privs")
    settings = [f"{key}={value}" for key, value in service["environment"].items()]
    program = ["chroot", root, "env", "-i", *settings, "sh", "-c", f'cd {q(service["workdir"])} && exec "$@"', "sh"]
    made.append("exec " + shlex.join([*program, *as_user, *service["command"]]))
    return "\n".join(made)


def start(name):
    service = services[name]
    for before, healthy in service["depends_on"].items():
        if healthy:
            wait_until_healthy(before)
    script = "read go\n" + inside(name, service)
    log = open(os.path.join(place, name + ".log"), "ab")
    # It is a group of processes of its own, so that all of it can be ended.
    child = subprocess.Popen(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
                             stdin=subprocess.PIPE, stdout=log, stderr=log)
    of = None
    while of is None:
        # The one in the namespaces is its child.
        listed = open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="utf-8").read().split()
        of = listed[0] if listed else None
        time.sleep(0.01)
    end = "v" + str(child.pid)
    run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", of)
    run("ip", "link", "set", end, "master", "bridge0", "up")
    run("nsenter", "-t", of, "-n", "ip", "link", "set", "lo", "up")
    run("nsenter", "-t", of, "-n", "ip", "address", "add", addresses[name] + "/24", "dev", "eth0")
    run("nsenter", "-t", of, "-n", "ip", "link", "set", "eth0", "up")
    child.stdin.write(b"go\n")
    child.stdin.close()
    running[name] = (child, of)


def is_healthy(name):
    """Whether the health check of the file, or of the image, is passed."""
    test = services[name]["healthcheck"]
    if test is None:
        return True
    command = ["sh", "-c", test[1]] if test[0] == "CMD-SHELL" else test[1:]
    enter = ["nsenter", "-t", running[name][1], "--net", "--mount", "--root", "--wd"]
    environment = ["env", "-i", *[f"{key}={value}" for key, value in services[name]["environment"].items()]]
    return subprocess.run([*enter, *environment, *command], capture_output=True, check=False).returncode == 0


def wait_until_healthy(name):
    began = time.monotonic()
    while not is_healthy(name):
        if running[name][0].poll() is not None or time.monotonic() - began > READY_WITHIN:
            raise RuntimeError(f"{name} is not healthy")
        time.sleep(0.2)


def end(name, how):
    child, of = running.pop(name)
    if child.poll() is None:
        os.kill(int(of), how)
    try:
        return child.wait(services[name]["stop_grace_seconds"])
    except subprocess.TimeoutExpired:
        os.kill(int(of), signal.SIGKILL)
        return child.wait()


def up():
    left = list(services)
    while left:
        ready = [name for name in left if not set(services[name]["depends_on"]) & set(left)]
        for name in ready:
            start(name)
            left.remove(name)
    for name in services:
        wait_until_healthy(name)


def obey(order):
    what, _, name = order.partition(" ")
    if what == "up":
        network()
        publish()
        up()
    elif what == "kill":
        end(name, signal.SIGKILL)
    elif what == "stop":
        return end(name, signal.SIGTERM)
    elif what == "start":
        start(name)
        wait_until_healthy(name)
    elif what == "logs":
        return open(os.path.join(place, name + ".log"), encoding="utf-8", errors="replace").read()[-4000:]
    return None


for line in sys.stdin:
    try:
        print(json.dumps({"done": obey(line.strip())}), flush=True)
    except Exception as error:  # pylint: disable=broad-exception-caught
        logs = {name: obey("logs " + name)[-2500:] for name in running}
        print(json.dumps({"failed": f"{type(error).__name__}: {error}", "logs": logs}), flush=True)

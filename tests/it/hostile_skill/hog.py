"""Takes more of the machine than its run may: as much as its argument stands for, and no more. Then it waits."""
import os, sys, time

MIB = 1 << 20


def processes():
    # Each makes another one, ten times.
    for _ in range(10):
        os.fork()


def memory_bytes():
    # 8 GiB.
    held = [b"x" * (32 * MIB) for _ in range(256)]
    time.sleep(600)


def disk_bytes():
    # 8 GiB.
    for number in range(128):
        with open("fill%d" % number, "wb") as file:
            for _ in range(64):
                file.write(b"x" * MIB)


def files():
    os.mkdir("many")
    for number in range(1_000_000):
        open("many/%d" % number, "w").close()


{"processes": processes, "memory_bytes": memory_bytes, "disk_bytes": disk_bytes, "files": files}[sys.argv[1]]()
time.sleep(600)

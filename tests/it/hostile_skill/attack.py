"""Tries to leave its run, in every way its parameters name; prints what became of each as one JSON object."""
import ctypes, errno, fcntl, glob, json, os, platform, socket, struct, sys

HERE = os.path.dirname(os.path.abspath(__file__))
aim = json.load(open(os.path.join(HERE, "attack.json")))
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
found = {}
# What the proxy answers, where there is one.
CLOSED = ("HTTP/1.1 403 Forbidden", "no proxy")


class Nothing(Exception):
    """There is nothing to get."""


def attempt(name, *expected):
    """Only what is expected counts as a refusal: an error of the system by its name, or the text of another."""
    def run(tried):
        try:
            found[name] = "got: %s" % (tried(),)
        except OSError as error:
            code = errno.errorcode.get(error.errno, str(error.errno))
            found[name] = "%s: %s" % ("refused" if code in expected else "failed", code)
        except Nothing as error:
            found[name] = "%s: %s" % ("refused" if str(error) in expected else "failed", error)
        except BaseException as error:
            found[name] = "failed: %r" % (error,)
        return tried
    return run


def read(path):
    with open(path, "rb") as file:
        return file.read(64)


def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "done"


def connect(host, port):
    with socket.create_connection((host, port), timeout=5):
        return "connected"


def through_proxy(target, asked=None):
    if "HTTP_PROXY" not in os.environ:
        raise Nothing("no proxy")
    proxy = os.environ["HTTP_PROXY"].split("//")[1].split(":")
    with socket.create_connection((proxy[0], int(proxy[1])), timeout=20) as way:
        way.sendall(asked or b"CONNECT %s HTTP/1.1\r\n\r\n" % target.encode())
        answer = way.recv(200).decode()
    if not answer.startswith("HTTP/1.1 200"):
        raise Nothing(answer.split("\r\n")[0])
    return "connected"


@attempt("another run", "ENOENT")
def _(): return read(aim["other_run"])

@attempt("the data folder", "ENOENT")
def _(): return read(aim["data_file"])

@attempt("what the operator keeps for the engine", "ENOENT")
def _(): return read(aim["operators_file"])

@attempt("a home", "ENOENT")
def _(): return read(aim["home_file"])

@attempt("the machine's /tmp", "ENOENT")
def _(): return read(aim["tmp_file"])

@attempt("writing outside", "EROFS", "ENOENT")
def _():
    with open(os.path.join(aim["outside"], "planted"), "w") as file:
        file.write("x")
    return "written"

@attempt("processes of others", "none is seen")
def _():
    seen = [path for path in glob.glob("/proc/[0-9]*/cmdline") if aim["victim"].encode() in read(path)]
    if not seen:
        raise Nothing("none is seen")
    return seen

@attempt("the service", "ECONNREFUSED")
def _(): return connect("127.0.0.1", aim["port"])

@attempt("an abstract socket", "ECONNREFUSED")
def _():
    with socket.socket(socket.AF_UNIX) as way:
        way.connect("\0" + aim["abstract"])
    return "connected"

if not aim["all"]:
    print(json.dumps({"success": True, "data": found}))
    sys.exit()

@attempt("the service through the proxy", *CLOSED)
def _(): return through_proxy("127.0.0.1:%d" % aim["port"])

@attempt("the service by a name", *CLOSED)
def _(): return through_proxy("localhost:%d" % aim["port"])

@attempt("metadata", "ENETUNREACH")
def _(): return connect("169.254.169.254", 80)

@attempt("metadata through the proxy", *CLOSED)
def _(): return through_proxy("169.254.169.254:80")

# Ways to write this machine's own addresses, and what is no host at all.
for host in ("2130706433", "0177.0.0.1", "0x7f.1", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]"):
    @attempt("the service as " + host, *CLOSED)
    def _(): return through_proxy("%s:%d" % (host, aim["port"]))

for host in ("[fe80::1%25lo]", "me@127.0.0.1", "127.0.0.1:80@example.org"):
    @attempt("the service as " + host, "HTTP/1.1 400 Bad Request", "no proxy")
    def _(): return through_proxy("%s:%d" % (host, aim["port"]))

@attempt("the service by its whole address", *CLOSED)
def _(): return through_proxy("x", b"GET http://127.0.0.1:%d/v1/jobs HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" % aim["port"])

@attempt("names elsewhere", "ENETUNREACH")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", ("192.0.2.1", 53))
    return "sent"

@attempt("namespaces of the machine", "all are its own")
def _():
    shared = [kind for kind, name in aim["namespaces"].items() if os.readlink("/proc/self/ns/" + kind) == name]
    if not shared:
        raise Nothing("all are its own")
    return shared

@attempt("ptrace", "EPERM")
def _(): return call(101 if X86 else 117, 16, 1, 0, 0)

@attempt("memory of the first process", "EACCES")
def _(): return read("/proc/1/mem")

@attempt("the root of the first process", "EACCES")
def _(): return os.listdir("/proc/1/root/")

@attempt("mount", "EPERM")
def _(): return call(165 if X86 else 40, b"tmpfs", os.getcwd().encode(), b"tmpfs", 0, 0)

@attempt("umount", "EPERM")
def _(): return call(166 if X86 else 39, b"/tmp", 2)

@attempt("user namespace", "EPERM")
def _(): return call(272 if X86 else 97, 0x10000000)

@attempt("user namespace by clone", "EPERM")
def _():
    pid = libc.syscall(56 if X86 else 220, ctypes.c_long(0x10000000 | 17), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid

@attempt("keyctl", "EPERM")
def _(): return call(250 if X86 else 219, 0, -3, 0)

@attempt("bpf", "EPERM")
def _(): return call(321 if X86 else 280, 0, 0, 0)

@attempt("perf", "EPERM")
def _(): return call(298 if X86 else 241, 0, 0, -1, -1, 0)

@attempt("modules", "EPERM")
def _(): return call(175 if X86 else 105, 0, 0, b"")

@attempt("kexec", "EPERM")
def _(): return call(246 if X86 else 104, 0, 0, 0, 0)

@attempt("io_uring", "ENOSYS")
def _(): return call(425, 1, ctypes.create_string_buffer(120))

@attempt("raw socket", "EPERM")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno()

@attempt("packet socket", "EPERM")
def _(): return socket.socket(17, socket.SOCK_DGRAM, 0).fileno()

@attempt("sockets of the hypervisor", "EPERM")
def _(): return socket.socket(40, socket.SOCK_STREAM, 0).fileno()

@attempt("terminal", "ENOENT")
def _(): return os.open("/dev/tty", os.O_WRONLY)

@attempt("typing", "EPERM")
def _():
    master, slave = os.openpty()
    return fcntl.ioctl(slave, 0x5412, b"x")

@attempt("settings of the kernel", "EROFS", "EACCES")
def _(): return open("/proc/sys/kernel/core_pattern", "w").fileno()

@attempt("devices", "there are no others")
def _():
    more = set(os.listdir("/dev")) - {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm"}
    if not more:
        raise Nothing("there are no others")
    return more

@attempt("privileges", "none, and none to come")
def _():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    if status["NoNewPrivs"] == "1" and int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0:
        raise Nothing("none, and none to come")
    return status

@attempt("setuid programs", "nowhere")
def _():
    honoured = [place for place in ("/", "/usr/bin", "/tmp", "/dev/shm", os.getcwd()) if not os.statvfs(place).f_flag & os.ST_NOSUID]
    if not honoured:
        raise Nothing("nowhere")
    return honoured

@attempt("how programs are loaded", "no such variable")
def _():
    given = [name for name in os.environ if name.startswith("LD_") or name in ("GCONV_PATH", "GLIBC_TUNABLES", "PYTHONSTARTUP")]
    if not given:
        raise Nothing("no such variable")
    return given

@attempt("core dumps", "off")
def _():
    import resource
    if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
        raise Nothing("off")
    return "on"

@attempt("user namespace by clone3", "ENOSYS")
def _(): return call(435, struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)

@attempt("calls of another interface", "ENOSYS", "none here")
def _():
    if not X86:
        raise Nothing("none here")
    return call(0x40000000 | 39)

@attempt("memory of others by a call", "EPERM")
def _(): return call(310 if X86 else 270, 1, 0, 0, 0, 0, 0)

@attempt("files of others by a call", "EPERM")
def _(): return call(438, 0, 0, 0)

@attempt("files by their handle", "EPERM")
def _(): return call(304 if X86 else 265, -100, 0, 0)

@attempt("faults of memory", "EPERM")
def _(): return call(323 if X86 else 282, 0)

@attempt("a device of its own", "EPERM", "EACCES")
def _(): return os.mknod("device", 0o20600, os.makedev(1, 1))

@attempt("a second name for a file outside", "EXDEV", "EROFS", "EPERM", "EACCES")
def _(): return os.link("/etc/passwd", "stolen")

@attempt("keeping others from opening a file", "EPERM")
def _():
    # It need not be writable: those of other skills would do.
    with open("leased", "w") as file:
        return fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)

@attempt("all pseudo terminals", "ENOSPC")
def _():
    opened = []
    try:
        for _ in range(400):
            opened.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    finally:
        for one in opened:
            os.close(one)
    return len(opened)

@attempt("leaving its control group", "EROFS", "EACCES", "none is seen")
def _():
    for path in glob.glob("/sys/fs/cgroup/cgroup.procs") + glob.glob("/sys/fs/cgroup/*/cgroup.procs"):
        return open(path, "w").write(str(os.getpid()))
    raise Nothing("none is seen")

@attempt("being the last to go", "EROFS", "EACCES")
def _(): return open("/proc/self/oom_score_adj", "w").write("-1000")

@attempt("raising a limit", "EPERM")
def _():
    number = 4  # RLIMIT_CORE
    return call(302 if X86 else 261, 0, number, struct.pack("2Q", 1, 1), 0)

@attempt("files that were open before", "none of others")
def _():
    own = (os.getcwd(), "/dev/", "/proc/", "/tmp", os.environ.get("TMPDIR", "/tmp"), os.environ.get("HOME", "/tmp"))
    # The folder that is being listed is closed by now.
    links = [os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + name)]
    others = [link for link in links if link.startswith("/") and not link.startswith(own) and not link.endswith("(deleted)")]
    if not others:
        raise Nothing("none of others")
    return others

print(json.dumps({"success": True, "data": found}))

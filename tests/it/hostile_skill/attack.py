"""Tries to leave its run, in every way its parameters name; prints what became of each as one JSON object."""
import ctypes, errno, fcntl, glob, json, os, platform, socket, sys

HERE = os.path.dirname(os.path.abspath(__file__))
aim = json.load(open(os.path.join(HERE, "attack.json")))
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
found = {}


def attempt(name):
    def run(tried):
        try:
            found[name] = "got: %s" % (tried(),)
        except BaseException as error:
            found[name] = "refused: %s" % (error,)
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


def through_proxy(target):
    proxy = os.environ["HTTP_PROXY"].split("//")[1].split(":")
    with socket.create_connection((proxy[0], int(proxy[1])), timeout=20) as way:
        way.sendall(b"CONNECT %s HTTP/1.1\r\n\r\n" % target.encode())
        answer = way.recv(200).decode()
    if not answer.startswith("HTTP/1.1 200"):
        raise OSError(answer.split("\r\n")[0])
    return "connected"


@attempt("another run")
def _(): return read(aim["other_run"])

@attempt("the data folder")
def _(): return read(aim["data_file"])

@attempt("a home")
def _(): return read(aim["home_file"])

@attempt("the machine's /tmp")
def _(): return read(aim["tmp_file"])

@attempt("writing outside")
def _():
    with open(os.path.join(aim["outside"], "planted"), "w") as file:
        file.write("x")
    return "written"

@attempt("processes of others")
def _():
    seen = [path for path in glob.glob("/proc/[0-9]*/cmdline") if aim["victim"].encode() in read(path)]
    if not seen:
        raise OSError("none is seen")
    return seen

@attempt("the service")
def _(): return connect("127.0.0.1", aim["port"])

@attempt("an abstract socket")
def _():
    with socket.socket(socket.AF_UNIX) as way:
        way.connect("\0" + aim["abstract"])
    return "connected"

if not aim["all"]:
    print(json.dumps({"success": True, "data": found}))
    sys.exit()

@attempt("the service through the proxy")
def _(): return through_proxy("127.0.0.1:%d" % aim["port"])

@attempt("the service by a name")
def _(): return through_proxy("localhost:%d" % aim["port"])

@attempt("metadata")
def _(): return connect("169.254.169.254", 80)

@attempt("metadata through the proxy")
def _(): return through_proxy("169.254.169.254:80")

@attempt("names elsewhere")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", ("192.0.2.1", 53))
    return "sent"

@attempt("ptrace")
def _(): return call(101 if X86 else 117, 16, 1, 0, 0)

@attempt("memory of the first process")
def _(): return read("/proc/1/mem")

@attempt("the root of the first process")
def _(): return os.listdir("/proc/1/root/")

@attempt("mount")
def _(): return call(165 if X86 else 40, b"tmpfs", os.getcwd().encode(), b"tmpfs", 0, 0)

@attempt("umount")
def _(): return call(166 if X86 else 39, b"/tmp", 2)

@attempt("user namespace")
def _(): return call(272 if X86 else 97, 0x10000000)

@attempt("user namespace by clone")
def _():
    pid = libc.syscall(56 if X86 else 220, ctypes.c_long(0x10000000 | 17), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid

@attempt("keyctl")
def _(): return call(250 if X86 else 219, 0, -3, 0)

@attempt("bpf")
def _(): return call(321 if X86 else 280, 0, 0, 0)

@attempt("perf")
def _(): return call(298 if X86 else 241, 0, 0, -1, -1, 0)

@attempt("modules")
def _(): return call(175 if X86 else 105, 0, 0, b"")

@attempt("kexec")
def _(): return call(246 if X86 else 104, 0, 0, 0, 0)

@attempt("io_uring")
def _(): return call(425, 1, ctypes.create_string_buffer(120))

@attempt("raw socket")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno()

@attempt("packet socket")
def _(): return socket.socket(17, socket.SOCK_DGRAM, 0).fileno()

@attempt("sockets of the hypervisor")
def _(): return socket.socket(40, socket.SOCK_STREAM, 0).fileno()

@attempt("terminal")
def _(): return open("/dev/tty", "wb").fileno()

@attempt("typing")
def _():
    master, slave = os.openpty()
    return fcntl.ioctl(slave, 0x5412, b"x")

@attempt("settings of the kernel")
def _(): return open("/proc/sys/kernel/core_pattern", "w").fileno()

@attempt("devices")
def _():
    more = set(os.listdir("/dev")) - {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm"}
    if not more:
        raise OSError("there are no others")
    return more

@attempt("privileges")
def _():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    if status["NoNewPrivs"] == "1" and int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0:
        raise OSError("none, and none to come")
    return status

@attempt("core dumps")
def _():
    import resource
    if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
        raise OSError("off")
    return "on"

print(json.dumps({"success": True, "data": found}))

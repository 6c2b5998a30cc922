"""What attackers do: functions that a Python inside of a sandbox runs, from their source text alone.

Each stands by itself, imports what it needs, and gives the list of what it got through with, in words. An
attempt that is refused is what a sandbox is for, and is not told. None of them goes on for ever: what a
sandbox does not hold must not take the machine down.
"""

from __future__ import annotations

__all__ = [
    "allocate",
    "allocate_together",
    "ask_the_kernel",
    "change_files",
    "change_modes",
    "connect",
    "descend",
    "find_word",
    "fork_many",
    "gain_privileges",
    "limit_others",
    "open_devices",
    "peek",
    "read_descriptors",
    "read_files",
    "route",
    "same_files",
    "signal_all",
    "signal_others",
    "spawn_threads",
    "trace",
]


# --- the network ------------------------------------------------------------------


def connect(addresses: list[list[object]], path: str, abstract: str) -> list[str]:
    """Knock on doors of the host."""
    import socket
    from contextlib import suppress

    found: list[str] = []
    for kind, host, port in addresses:
        family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
        number = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
        with suppress(OSError), socket.socket(family, number) as made:
            made.settimeout(1)
            made.connect((host, port))
            if kind == "tcp":
                found.append(f"connected to {host}")
            else:
                made.send(b"knock")  # whether it has come is seen over there
    for name in (path, "\0" + abstract):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            made.connect(name)
            found.append(f"connected to the Unix socket {name!r}")
    return found


def route() -> list[str]:
    """Is there a way to anywhere else? Connecting a socket for datagrams asks that, and sends nothing."""
    import socket
    from contextlib import suppress

    found: list[str] = []
    for host in ("192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "224.0.0.251"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as made:
            made.connect((host, 9))
            found.append(f"there is a way to {host}, from {made.getsockname()[0]}")
    return found


# --- files ------------------------------------------------------------------------


def read_files(path: str, secret: str, pids: list[int]) -> list[str]:
    """Read a file of the host, by every name that it may have."""
    import glob
    import os
    from contextlib import suppress

    up = "../" * 40
    roots = ["", up, "/proc/self/root", "/proc/1/root", "/proc/self/cwd/" + up, "/proc/thread-self/root"]
    roots += [f"/proc/{pid}/{name}" for pid in pids for name in ("root", "cwd/" + up)]
    roots += glob.glob("/proc/[0-9]*/root")
    names = [root + path for root in roots]
    for at, link in ((path, "link"), (os.path.dirname(path), "folder")):
        with suppress(OSError):
            os.symlink(at, link)
    with suppress(OSError):
        os.link(path, "hard")
    names += ["link", "folder/" + os.path.basename(path), "hard"]
    found: list[str] = []
    for name in names:
        with suppress(OSError), open(name, encoding="utf-8", errors="replace") as file:
            if secret in file.read(100000):
                found.append(f"read {name}")
    for folder in {os.path.dirname(name) or "." for name in names}:
        with suppress(OSError):
            if os.path.basename(path) in os.listdir(folder) and folder not in (".", os.getcwd()):
                found.append(f"listed {folder}")
    return found


def same_files(known: dict[str, list[int]]) -> list[str]:
    """Open what is private on the host. One of the same name inside is another file."""
    import os
    from contextlib import suppress

    found: list[str] = []
    for path, here in known.items():
        with suppress(OSError):
            opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            facts = os.fstat(opened)
            if [facts.st_dev, facts.st_ino] == here:
                found.append(f"opened {path}")
            os.close(opened)
    return found


def read_descriptors(secret: str) -> list[str]:
    """Read what was left open by whoever started this."""
    import os
    from contextlib import suppress

    found: list[str] = []
    for number in range(3, 1024):
        with suppress(OSError):
            os.lseek(number, 0, os.SEEK_SET)
        with suppress(OSError):
            os.set_blocking(number, False)
            if secret.encode() in (os.read(number, 100000) or b""):
                found.append(f"read descriptor {number}")
    return found


def change_files(folder: str, secret: str, pids: list[int], marks: list[str]) -> list[str]:
    """Write, rename, remove and link in a folder of the host. The host sees by itself what has changed."""
    import os
    from contextlib import suppress

    up = "../" * 40
    roots = ["", up, "/proc/self/root", "/proc/1/root"]
    roots += [f"/proc/{pid}/{name}" for pid in pids for name in ("root", "cwd/" + up)]
    for root in roots:
        place = root + folder
        with suppress(OSError), open(place + "/new", "w") as file:
            file.write("here")
        with suppress(OSError), open(secret if root == "" else root + secret, "a") as file:
            file.write("changed")
        with suppress(OSError):
            os.truncate(root + secret, 0)
        with suppress(OSError):
            os.symlink("/", place + "/link")
        with suppress(OSError):
            os.mkdir(place + "/folder")
        with suppress(OSError):
            os.mkfifo(place + "/pipe")
        with suppress(OSError):
            os.rename(root + secret, place + "/moved")
        with suppress(OSError):
            os.unlink(root + secret)
    for path in marks:
        with suppress(OSError), open(path, "x"):
            pass
    return []


def change_modes(folder: str, secret: str) -> list[str]:
    """Make a file of the host useless, or everybody's, without opening it."""
    import os
    from contextlib import suppress

    for path in (secret, folder):
        with suppress(OSError):
            os.utime(path, (1, 1))
        with suppress(OSError):
            os.setxattr(path, "user.gnomon", b"1")
        with suppress(OSError):
            os.chown(path, os.geteuid(), os.getegid())
        with suppress(OSError):
            os.chmod(path, 0o700)
    return []


# --- other processes --------------------------------------------------------------


def find_word(backwards: str, pids: list[int]) -> list[str]:
    """Look for a secret of other processes in all that /proc tells of them. Ours say it backwards."""
    import os
    from contextlib import suppress

    word = backwards[::-1]
    found: list[str] = []
    listed: list[str] = []
    with suppress(OSError):
        listed = [name for name in os.listdir("/proc") if name.isdigit()]
    for pid in dict.fromkeys([*map(str, pids), *listed]):
        if int(pid) == os.getpid():
            continue
        for name in ("environ", "cmdline"):
            with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
                if word.encode() in file.read(100000):
                    found.append(f"read /proc/{pid}/{name}")
    return found


def peek(pids: list[int], here: dict[str, list[int]]) -> list[str]:
    """Get into processes of the host by their folders in /proc, and at the switches of its kernel."""
    import os
    from contextlib import suppress

    found: list[str] = []
    for pid in pids:
        for name in ("mem", "maps", "auxv", "stack", "syscall", "pagemap", "io", "fd", "fdinfo", "map_files"):
            with suppress(OSError):
                os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
                found.append(f"opened /proc/{pid}/{name}")
        for name in ("cwd", "exe", "root"):
            with suppress(OSError):
                opened = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
                facts = os.fstat(opened)
                if [facts.st_dev, facts.st_ino] == here.get(name):
                    found.append(f"opened /proc/{pid}/{name}")
                os.close(opened)
        for name in ("oom_score_adj", "comm", "clear_refs", "coredump_filter"):
            with suppress(OSError):
                os.close(os.open(f"/proc/{pid}/{name}", os.O_WRONLY))
                found.append(f"opened /proc/{pid}/{name} to write to it")
    for path in ("sys/kernel/core_pattern", "sys/kernel/hostname", "sys/vm/drop_caches", "sysrq-trigger"):
        with suppress(OSError):
            os.close(os.open(f"/proc/{path}", os.O_WRONLY))
            found.append(f"opened /proc/{path} to write to it")
    for path in ("kcore", "keys", "kmsg", "sched_debug", "timer_list"):
        with suppress(OSError):
            opened = os.open(f"/proc/{path}", os.O_RDONLY | os.O_NONBLOCK)
            with suppress(OSError):
                if os.read(opened, 10):
                    found.append(f"read /proc/{path}")
            os.close(opened)
    return found


def trace(pids: list[int]) -> list[str]:
    """Attach to processes of the host, and read their memory."""
    import ctypes
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    seize = 0x4206
    read = {"x86_64": 310, "aarch64": 270}.get(platform.machine(), -1)

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    found: list[str] = []
    for pid in pids:
        if pid == os.getpid():
            continue
        if libc.ptrace(seize, pid, None, None) == 0:  # unlike attaching, it stops nobody
            found.append(f"seized process {pid}")
        room = ctypes.create_string_buffer(8)
        ours, theirs = Piece(ctypes.addressof(room), 8), Piece(id(0), 8)
        if libc.syscall(read, pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) > 0:
            found.append(f"read the memory of process {pid}")
    return found


def signal_all() -> list[str]:
    """Send a signal that does no harm to all that there is, and to who has started this."""
    import os
    import signal
    from contextlib import suppress

    signal.signal(signal.SIGURG, signal.SIG_IGN)
    with suppress(OSError):
        os.kill(-1, signal.SIGURG)
    with suppress(OSError):
        os.kill(os.getppid(), signal.SIGURG)
    return []


def signal_others(pids: list[int]) -> list[str]:
    """Send a signal that does no harm to processes of the host, in every way that there is."""
    import ctypes
    import fcntl
    import os
    import signal
    import socket
    from contextlib import suppress

    libc = ctypes.CDLL(None, use_errno=True)
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGURG)
        with suppress(OSError):
            os.killpg(pid, signal.SIGURG)
        libc.sigqueue(pid, int(signal.SIGURG), None)
        with suppress(OSError, AttributeError):
            signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGURG)
        with suppress(OSError):  # have the kernel send it
            one, other = socket.socketpair()
            fcntl.fcntl(one, fcntl.F_SETOWN, pid)
            fcntl.fcntl(one, getattr(fcntl, "F_SETSIG", 10), int(signal.SIGURG))
            fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            other.send(b"x")
            one.close()
            other.close()
        with suppress(OSError):
            reading, writing = os.pipe()
            fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
            fcntl.fcntl(reading, getattr(fcntl, "F_SETSIG", 10), int(signal.SIGURG))
            fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            os.write(writing, b"x")
    return []


def limit_others(pids: list[int]) -> list[str]:
    """Take the files from a process of the host by its limits. The host sees whether they have changed."""
    import resource
    from contextlib import suppress

    for pid in pids:
        with suppress(OSError, ValueError, AttributeError):
            most = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, most))
    return []


# --- the machine ------------------------------------------------------------------


def open_devices(names: list[str]) -> list[str]:
    """Open what is no file: the memory, disks, the console, and devices that are made for it."""
    import os
    import stat
    from contextlib import suppress

    found: list[str] = []
    usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    for name in [*names, "mem", "port", "kmsg", "kvm", "fuse", "net/tun", "loop-control", "mapper/control"]:
        with suppress(OSError):
            if name not in usual:
                os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
                found.append(f"opened /dev/{name}")
    for name in ("tty", "console", "tty0", "tty1"):
        with suppress(OSError):
            os.close(os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))
            found.append(f"opened /dev/{name}")
    for kind, mode in (("the memory", stat.S_IFCHR), ("a disk", stat.S_IFBLK)):
        for folder in (".", os.environ.get("TMPDIR", "/tmp"), "/dev"):  # noqa: S108
            path = folder + "/made"
            with suppress(OSError):
                os.mknod(path, mode | 0o600, os.makedev(1, 1))
                found.append(f"made a device that is {kind}, in {folder}")
                os.unlink(path)
    return found


def ask_the_kernel() -> list[str]:
    """Make the calls that holes in sandboxes are made of, in a form that does nothing."""
    import ctypes
    import errno
    import os
    import platform
    import signal
    import socket

    libc = ctypes.CDLL(None, use_errno=True)
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    block = ctypes.create_string_buffer(4096)
    this = os.getpid()
    own_keys = -2  # the keyring that goes with this process
    name_of_host = socket.gethostname().encode()
    # The number on x86-64 and on arm64, and arguments with which it would succeed where it is allowed, and
    # change nothing.
    calls: dict[str, tuple[tuple[int, int], tuple[object, ...]]] = {
        "keyctl": ((250, 219), (0, own_keys, 1)),
        "add_key": ((248, 217), (b"user", b"gnomon", b"x", 1, own_keys)),
        "request_key": ((249, 218), (b"user", b"gnomon", None, own_keys)),
        "bpf": ((321, 280), (0, block, 72)),
        "userfaultfd": ((323, 282), (1,)),
        "perf_event_open": ((298, 241), (block, 0, -1, -1, 0)),
        "io_uring_setup": ((425, 425), (1, block)),
        "open_tree": ((428, 428), (-100, b"/", 1)),
        "fsopen": ((430, 430), (b"tmpfs", 0)),
        "setns": (
            (308, 268),
            (os.open("/proc/self/ns/uts", os.O_RDONLY) if os.path.exists("/proc/self/ns/uts") else -1, 0),
        ),
        "chroot": ((161, 51), (b"/",)),
        "process_vm_readv": ((310, 270), (this, None, 0, None, 0, 0)),
        "kcmp": ((312, 272), (this, this, 1, 0, 0)),
        "name_to_handle_at": ((303, 264), (-100, b"/", ctypes.create_string_buffer(b"\x80", 256), block, 0)),
        "syslog": ((103, 116), (10, None, 0)),
        "sethostname": ((170, 161), (name_of_host, len(name_of_host))),
        "memfd_secret": ((447, 447), (0,)),
        "personality": ((135, 92), (0x0004000 | 0x0040000,)),
    }

    def answer(name: str) -> int:
        numbers, given = calls[name]
        return int(libc.syscall(numbers[column], *given))

    def in_a_child(what: object) -> bool:
        """Whether it goes well, in a process of its own that may be ended for it."""
        child = os.fork()
        if child == 0:
            os._exit(0 if what() == 0 else 1)  # type: ignore[operator]
        return os.waitpid(child, 0)[1] == 0

    found = [f"called {name}" for name in calls if answer(name) >= 0]
    # These would change something if they succeeded, so they are asked for what is no mount. Whoever may
    # mount is told that; whoever may not is told nothing.
    os.makedirs("no-mount", exist_ok=True)
    remount_bind = 0x20 | 0x1000
    for name, numbers, given in (
        ("mount", (165, 40), (None, b"no-mount", None, remount_bind, None)),
        ("umount2", (166, 39), (b"no-mount", 0)),
        ("move_mount", (429, 429), (-100, b"no-mount", -100, b"no-mount", 0)),
    ):
        if libc.syscall(numbers[column], *given) >= 0 or ctypes.get_errno() == errno.EINVAL:
            found.append(f"called {name}")
    for name, flag in (("user", 0x10000000), ("user and mount", 0x10020000), ("user and net", 0x50000000)):
        if in_a_child(lambda flag=flag: libc.unshare(flag)):
            found.append(f"made a namespace with unshare: {name}")
    clone = (56, 220)[column]
    child = libc.syscall(clone, 0x10000000 | int(signal.SIGCHLD), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        found.append("made a namespace with clone: user")
    if in_a_child(lambda: libc.ptrace(0, 0, None, None)):
        found.append("called ptrace")
    for name, family, kind in (
        ("vsock", 40, socket.SOCK_STREAM),
        ("packets", 17, socket.SOCK_RAW),
        ("the kernel's ciphers", 38, 5),
        ("Bluetooth", 31, socket.SOCK_RAW),
        ("raw", socket.AF_INET, socket.SOCK_RAW),
    ):
        try:
            socket.socket(family, kind, 1 if name == "raw" else 0).close()
            found.append(f"made a socket for {name}")
        except OSError:
            pass
    return found


def gain_privileges() -> list[str]:
    """Have or get what only root has."""
    import glob
    import os
    import stat
    import subprocess
    from contextlib import suppress

    found: list[str] = []
    with suppress(OSError), open("/proc/self/status") as file:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            if int(facts.get(name, "0"), 16):
                found.append(f"{name} is {facts[name]}")
        if facts.get("NoNewPrivs") != "1":
            found.append("programs may gain privileges")
    own = os.geteuid()
    other = 12345 if own != 12345 else 12346
    for name, change in (("setuid", os.setuid), ("setgid", os.setgid)):
        child = os.fork()
        if child == 0:
            with suppress(OSError):
                change(other)
                os._exit(0)
            os._exit(1)
        if os.waitpid(child, 0)[1] == 0:
            found.append(f"became somebody else by {name}")
    with suppress(OSError):
        with open("mine", "w"):
            pass
        os.chown("mine", other, other)
        found.append("gave a file away")
    with suppress(OSError):
        os.nice(-5)
        found.append("went before others")
    for path in glob.glob("/usr/bin/*") + glob.glob("/bin/*"):
        with suppress(OSError):
            is_way = own != 0 and os.path.basename(path) in ("su", "sudo", "pkexec")
            if is_way and os.stat(path).st_mode & stat.S_ISUID:
                done = subprocess.run(  # noqa: S603 - whether it makes us root is the question
                    [path, "-c", "id -u"] if path.endswith("su") else [path, "-n", "id", "-u"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=10,
                    check=False,
                )
                if done.stdout.strip() == b"0":
                    found.append(f"became root by {path}")
    return found


# --- limits -----------------------------------------------------------------------


def allocate(kind: str, most_mb: int) -> list[str]:
    """Take memory and use it, up to a bound of its own."""
    import mmap
    import os
    import sys
    import time

    kept: list[object] = []
    piece = b"x" * (1 << 20)
    try:
        for _ in range(most_mb // 8):
            if kind == "private":
                kept.append(bytearray(piece * 8))
            elif kind == "shared":
                room = mmap.mmap(-1, 8 << 20)
                for _ in range(8):
                    room.write(piece)
                kept.append(room)
            else:  # a file that is nowhere but in memory
                file = os.memfd_create("room")
                for _ in range(8):
                    os.write(file, piece)
                kept.append(file)
    except (MemoryError, OSError, ValueError):
        return []
    time.sleep(1)  # who looks now and then sees it
    sys.stdout.flush()
    return [f"used {most_mb} MB of memory ({kind})"]


def allocate_together(children: int, each_mb: int) -> list[str]:
    """The same by many processes, none of which has much. Those count that have it at the same time."""
    import os
    import select
    import signal
    import time

    def has_it() -> None:
        room = bytearray(each_mb << 20)  # not made from another, which would be there beside it
        room[::4096] = b"x" * (len(room) // 4096)
        os.write(told, b"+")
        time.sleep(30)
        del room

    heard, told = os.pipe()
    started: list[int] = []
    for _ in range(children):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            try:
                os.close(heard)
                has_it()
            finally:
                os._exit(0)
        started.append(child)
    os.close(told)
    count, end = 0, time.monotonic() + 10
    while count < len(started) and time.monotonic() < end:
        if select.select([heard], [], [], 0.2)[0]:
            got = os.read(heard, 100)
            count += len(got)
            if not got:
                break
        if any(os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) for child in started):
            break  # one was ended, so they will not all have it at a time
    living = [
        child for child in started if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    ]
    at_once = min(count, len(living))
    for child in living:
        os.kill(child, signal.SIGKILL)
    return [f"{at_once} processes used {each_mb} MB each"] if at_once == children else []


def fill_out_of_sight(where: str, most_mb: int) -> list[str]:
    """Write to a folder that is deeper than any path can name, or to one that nobody else may look into."""
    import os
    import time

    try:
        for _ in range(30 if where == "deep" else 1):
            os.mkdir("a" * 200)
            os.chdir("a" * 200)
        if where == "locked":
            os.chmod(".", 0o300)
        for number in range(most_mb // 8):
            with open(f"many{number}", "wb") as file:
                file.write(bytes(8 << 20))
    except OSError:
        return []
    time.sleep(1)  # who looks now and then sees it
    return [f"wrote {most_mb} MB"]


def fork_many(most: int) -> list[str]:
    """Start processes until it is refused, up to a bound of its own."""
    import os
    import signal
    import time

    started: list[int] = []
    try:
        for _ in range(most):
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            started.append(child)
        time.sleep(0.5)  # who looks now and then sees them
    except OSError:
        started = []
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
    return [f"started {len(started)} processes"] if started else []


def spawn_threads(most: int) -> list[str]:
    """The same with threads."""
    import threading
    import time

    threading.stack_size(65536)
    count = 0
    try:
        for _ in range(most):
            threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
            count += 1
    except (RuntimeError, MemoryError, OSError):
        return []
    time.sleep(0.5)
    return [f"started {count} threads"]


def descend(word: str) -> list[str]:
    """Leave processes behind, in each of the ways in which they get out of their parent's sight."""
    import os
    import signal
    import sys
    from contextlib import suppress

    def stay() -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        command = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(30)", word]
        os.execv(command[0], command)  # noqa: S606 - so that it can be seen by its arguments

    def leave(way: str) -> None:
        if way == "session":
            os.setsid()
        elif way == "group":
            os.setpgid(0, 0)
        elif way == "twice":
            if os.fork():
                os._exit(0)
            os.setsid()
            if os.fork():
                os._exit(0)
        elif way == "closed":
            os.setsid()
            os.closerange(0, 100)

    for way in ("plain", "group", "session", "twice", "closed"):
        child = os.fork()
        if child == 0:
            with suppress(OSError):  # it stays all the same
                leave(way)
            try:
                stay()
            finally:
                os._exit(1)
    return []

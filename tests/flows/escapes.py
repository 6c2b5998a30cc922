"""Ways around a list of forbidden words, as models and people have found them, and what is tried behind each.

Every one of them runs `reach.py`, which lies in the workspace, or its text. Most name nothing that a list
would look for, such as `os.system`, `exec` or a program; the plain ones stand beside them, since there is no
list.
"""

from __future__ import annotations

import base64
import inspect
from contextlib import ExitStack
from typing import Self

from gnomon.testing import _sandbox_programs as attack
from gnomon.testing._sandbox_host import Bystander, Folder, Listeners, variable

__all__ = ["IN_PYTHON", "IN_SHELL", "Target", "in_python"]

IN_PYTHON = {
    "as it is": "import os\nos.system(LINE)",
    "through the classes that there are": (
        "known = ().__class__.__base__.__subclasses__()\n"
        "found = [each for each in known if each.__name__ == '_wrap_close']\n"
        "found[0].__init__.__globals__['sys' + 'tem'](LINE)"
    ),
    "by names that are put together": "getattr(__import__('o' + 's'), 'metsys'[::-1])(LINE)",
    "by a module that has another": "import random\nrandom._os.system(LINE)",
    "by another name": "from posix import system as add_numbers\nadd_numbers(LINE)",
    "through the modules that are loaded": (
        "import sys\nprint(sys.modules['o' 's'].__dict__['po' 'pen'](LINE).read())"
    ),
    "from the builtins": "import builtins\nvars(builtins)['ev' + 'al'](\"__import__('os').system(LINE)\")",
    "with letters that only look different": "import base64\nｅｘｅｃ(base64.b64decode(B64))",
    "from base64": "import base64\nexec(base64.b64decode(B64))",
    "in a decorator": "import base64\n@exec\n@base64.b64decode\n@lambda _: B64\nclass Innocent: pass",
    "by the C library": "import ctypes\nctypes.CDLL(None).system(LINE.encode())",
    "from a pickle": 'import pickle\npickle.loads(b"cos\\nsystem\\n(S\'" + LINE.encode() + b"\'\\ntR.")',
    "by a file that it writes and runs": (
        "import base64, sys\nfrom pathlib import Path\nPath('made.py').write_bytes(base64.b64decode(B64))\n"
        "import subprocess; print(subprocess.run([sys.executable, 'made.py'], capture_output=True).stdout)"
    ),
    "by a module that it writes and imports": (
        "import base64, sys\nfrom pathlib import Path\n"
        "Path('innocent.py').write_bytes(base64.b64decode(B64))\n"
        "sys.path.insert(0, '.')\nimport innocent"
    ),
    "from the frame of an error": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
        "    known = error.__traceback__.tb_frame.f_builtins\n"
        "    known['__im' + 'port__']('posix').system(LINE)"
    ),
}
"""What each is, and the code: `LINE` is the line for a shell, `B64` the program."""

IN_SHELL = {
    "as it is": "python3 reach.py",
    "in quotes": "pyth''on\"3\" re\\ach.p?",
    "put together": "a=pyth; b=on3; $a$b reach.py",
    "without a space": "python3${IFS}reach.py",
    "in other signs": "$(printf '\\160\\171\\164\\150\\157\\156\\63') reach.py",
    "from base64": "echo cHl0aG9uMyByZWFjaC5weQ== | base64 -d | sh",
    "as text of a document": "sh <<E\npython3 reach.py\nE",
    "by a script that it writes": "echo python3 reach.py > tidy.sh; chmod +x tidy.sh; ./tidy.sh",
    "by another program": "find reach.py -exec python3 {} \\;",
    "by awk": "awk 'BEGIN { system(\"python3 reach.py\") }'",
    "by words that are read": "echo reach.py | xargs python3",
    "in the background": "{ python3 reach.py & } ; wait",
}


class Target:
    """A host with all that a command must not reach: a file, a process, listeners, a variable."""

    def __enter__(self) -> Self:
        self._open = ExitStack()
        self.folder = self._open.enter_context(Folder())
        self.process = self._open.enter_context(Bystander())
        self.listeners = self._open.enter_context(Listeners())
        _, self._secret = self._open.enter_context(variable())
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @property
    def program(self) -> str:
        """What tries to reach it, and says what it has reached."""
        made = (
            attack.read_files,
            attack.change_files,
            attack.connect,
            attack.find_word,
            attack.signal_others,
        )
        pids = [self.process.pid]
        host, listeners = self.folder, self.listeners
        return "\n".join(
            [
                *map(inspect.getsource, made),
                f"told = read_files({host.file!r}, {host.secret!r}, {pids})",
                f"told += connect({listeners.addresses!r}, {listeners.path!r}, {listeners.abstract!r})",
                f"told += find_word({self.process.secret[::-1]!r}, {pids})",
                f"told += change_files({host.path!r}, {host.file!r}, {pids}, [])",
                f"told += signal_others({pids})",
                "import os",
                f"told += [name for name in os.environ if {self._secret[::-1]!r}[::-1] in os.environ[name]]",
                "print('reached', len(told), told, flush=True)",
            ]
        )

    def expect_untouched(self, what: str) -> None:
        self.folder.expect_untouched(what)
        self.process.expect_unharmed(what)
        assert self.listeners.reached() == [], what


def in_python(code: str, program: str) -> str:
    """The code of one of the ways, with what it runs."""
    return f"LINE = 'python3 reach.py'\nB64 = {base64.b64encode(program.encode())!r}\n{code}"

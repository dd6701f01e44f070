"""
The paths of both forms of this launcher: the repository, with one folder for all generated files; or the installation
by a wheel or Debian package (common/cmake/offramp_install.cmake), with programs only and no set-up.
"""

import contextlib
import copy
import os
import pathlib
import re
import resource
import sys

LAUNCHER = pathlib.Path(__file__).resolve().parent
# Beside an installed launcher: everything that is not Python.
INSTALLED_PROGRAMS = LAUNCHER.parent / "offramp" / "programs"
IN_TEXTS = re.compile(r"(?<![\w./-])\./launch/offramp(?![\w/-])")  # this command's name in messages


def here():
    """The places of the running launcher."""
    return Installed(INSTALLED_PROGRAMS.resolve()) if INSTALLED_PROGRAMS.exists() else Places()


def as_typed(text, anywhere=False):
    """The text with this command's name as it is typed in the current folder; `anywhere`: in any, for reports."""
    return IN_TEXTS.sub(lambda _: here().continue_command_line() if anywhere else here().command, text)


class Places:
    is_installed = False
    _runs = None  # replaces the usual folder of runs

    def __init__(self, root=None, build=None):
        self.root = pathlib.Path(root or pathlib.Path(__file__).resolve().parents[2])
        self.build = pathlib.Path(build or os.environ.get("OFFRAMP_BUILD_DIR") or self.root / "build").absolute()

    @property
    def command(self):
        """As it is typed in the current folder."""
        with contextlib.suppress(OSError):  # the folder was removed
            if os.path.samefile(self.root, os.getcwd()):
                return "./launch/offramp"
        return self.continue_command_line()

    launch = property(lambda self: self.root / "launch")
    venv = property(lambda self: self.build / "venv")
    venv_python = property(lambda self: self.venv / "bin" / "python")
    logs = property(lambda self: self.build / "logs")
    runs = property(lambda self: self._runs or self.build / "runs")
    demo_images = property(lambda self: self.launch / "demo" / "images")
    demo_masks = property(lambda self: self.launch / "demo" / "masks")
    numpy_demo = property(lambda self: self.launch / "numpy_demo")
    package = property(lambda self: self.launch / "python", doc="The folder of the Python package offramp.")

    def with_runs_in(self, folder):
        """The same places with all run directories in this folder."""
        places = copy.copy(self)
        places._runs = folder
        return places

    def version(self):
        return re.findall(r'__version__ = "([^"]+)"', (self.package / "offramp" / "_version.py").read_text())[0]

    def commit(self):
        """The checked-out commit, or OFFRAMP_REVISION for a copy; None where unknown."""
        if named := os.environ.get("OFFRAMP_REVISION"):
            return named
        with contextlib.suppress(OSError, ValueError):
            return head_of(self.root)
        return None

    def continue_command_line(self):
        """The command as typed from any folder."""
        return str(self.launch / "offramp")

    def build_folder(self, preset):
        return self.build / preset

    def programs(self):
        """The folder of the programs."""
        return pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR") or self.build_folder("release") / "bin").absolute()

    def python_command(self, python, script, *options):
        """The command of a script here. Compiled files go to the build folder; none under a file size limit."""
        compiled = [*(["-B"] if is_file_size_limited() else []), "-X", f"pycache_prefix={self.build / 'pycache'}"]
        return [str(python), *options, *compiled, str(script)]

    def keep_compiled(self):
        """From here on this Python keeps its compiled files there; launch/offramp starts it with -B."""
        sys.dont_write_bytecode, sys.pycache_prefix = is_file_size_limited(), str(self.build / "pycache")

    def environment_of_loops(self):
        """Of programs that import the package: this launcher's package and library, unless others are named."""
        library = self.programs().parent / "lib" / "libofframp.so"
        paths = [os.environ.get("PYTHONPATH"), str(self.package)]
        return {
            **({"OFFRAMP_LIBRARY": str(library)} if library.exists() else {}),
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }

    def producer(self):
        return self.programs() / "offramp-producer"

    def ladder(self):
        """The producer of runs with another strategy of copying outputs from the device."""
        return self.programs() / "offramp-ladder"

    def consumer(self):
        return self.programs() / "offramp-consumer"


class Installed(Places):
    """`root`: the folder of programs. Generated files go to a folder of the user."""

    is_installed = True
    command = "offramp"

    def __init__(self, root):
        home = os.path.expanduser("~")  # stays '~' for a user without an entry
        state = os.environ.get("XDG_STATE_HOME") or (
            f"{home}/.local/state" if home != "~" else f"/tmp/offramp-{os.getuid()}"
        )
        super().__init__(root, os.environ.get("OFFRAMP_BUILD_DIR") or f"{state}/offramp")

    launch = property(lambda self: self.root / "share" / "launch")
    venv = property(lambda self: pathlib.Path(sys.prefix))
    venv_python = property(lambda self: pathlib.Path(sys.executable))
    package = property(lambda self: LAUNCHER.parent)

    def commit(self):
        return os.environ.get("OFFRAMP_REVISION")

    def keep_compiled(self):
        """Its files were compiled when it was installed."""

    def continue_command_line(self):
        return self.command

    def programs(self):
        return pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR") or self.root / "bin").absolute()


def head_of(root):
    """The commit's first digits, read without Git; None where it is recorded otherwise. Errors: OSError, ValueError."""
    git = root / ".git"
    if git.is_file():  # a worktree
        git = root / git.read_text().removeprefix("gitdir:").strip()
    name = (git / "HEAD").read_text().strip()
    if name.startswith("ref: "):
        name = name[len("ref: ") :]
        shared = git / (git / "commondir").read_text().strip() if (git / "commondir").exists() else git
        if (shared / name).exists():
            name = (shared / name).read_text()
        else:
            packed = (line.split() for line in (shared / "packed-refs").read_text().splitlines())
            name = next((words[0] for words in packed if words[1:] == [name]), "")
    return name[:8] or None


def is_file_size_limited():
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def is_writable(folder):
    """Whether this user may create the folder, including its parents, or write to it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)

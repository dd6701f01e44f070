"""
Where everything lies, in the two forms that this launcher comes in: the repository, with the one folder that all generated files go to; or
installed, by a wheel or a Debian package (common/cmake/offramp_install.cmake): programs alone, and nothing to set up.
"""

import contextlib
import copy
import os
import pathlib
import re
import resource
import subprocess
import sys

LAUNCHER = pathlib.Path(__file__).resolve().parent
# Beside the launcher where it is installed: what is not Python.
INSTALLED_PROGRAMS = LAUNCHER.parent / "offramp" / "programs"
LIBRARY = "libofframp.so.1"


def here():
    """Those of the launcher that is running."""
    return Installed(INSTALLED_PROGRAMS.resolve()) if INSTALLED_PROGRAMS.exists() else Places()


class Places:
    is_installed = False
    command = "./launch/offramp"        # as it is typed
    _runs = None        # where runs are found in the place of the usual folder

    def __init__(self, root=None, build=None):
        self.root = pathlib.Path(root or pathlib.Path(__file__).resolve().parents[2])
        self.build = pathlib.Path(build or os.environ.get("OFFRAMP_BUILD_DIR") or self.root / "build").absolute()

    launch = property(lambda self: self.root / "launch")
    venv = property(lambda self: self.build / "venv")
    venv_python = property(lambda self: self.venv / "bin" / "python")
    logs = property(lambda self: self.build / "logs")
    runs = property(lambda self: self._runs or self.build / "runs")
    demo_images = property(lambda self: self.launch / "demo" / "images")
    demo_masks = property(lambda self: self.launch / "demo" / "masks")
    numpy_demo = property(lambda self: self.launch / "numpy_demo")
    package = property(lambda self: self.launch / "python", doc="The folder that the Python package offramp lies in.")

    def with_runs_in(self, folder):
        """The same places, where nobody finds the directories of runs but in this folder."""
        places = copy.copy(self)
        places._runs = folder
        return places

    def version(self):
        """Of the sources."""
        return re.search(r"project\(\S+ VERSION ([0-9.]+)", (self.root / "CMakeLists.txt").read_text())[1]

    def commit(self):
        """That is checked out, or what OFFRAMP_REVISION says of a copy; nothing where neither is known."""
        if named := os.environ.get("OFFRAMP_REVISION"):
            return named
        if (self.root / ".git").exists():
            with contextlib.suppress(OSError):
                return subprocess.run(["git", "-C", str(self.root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                      check=False).stdout.strip() or None
        return None

    def continue_command_line(self):
        """As it is typed wherever one is."""
        return str(self.launch / "offramp")

    def build_folder(self, preset):
        return self.build / preset

    def programs(self):
        """The folder of the producers and the consumer."""
        return pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR") or self.build_folder("release") / "bin").absolute()

    def python_command(self, python, script, *options):
        """
        Runs a script, or a folder of one, of the repository's; what is compiled of it goes to the build folder, unless files may not
        grow: it would be cut short, and not be readable any more.
        """
        limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
        return [str(python), *options, *(["-B"] if limited else []), "-X", f"pycache_prefix={self.build / 'pycache'}", str(script)]

    def environment_of_loops(self):
        """Of programs that import the package: it and its library are those beside this launcher, unless others are named."""
        library = self.programs().parent / "lib" / LIBRARY
        paths = [os.environ.get("PYTHONPATH"), str(self.package)]
        return {**({"OFFRAMP_LIBRARY": str(library)} if library.exists() else {}), **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def producer(self):
        return self.programs() / "offramp-producer"

    def ladder(self):
        """The producer of runs whose outputs leave the device in another way than the usual one."""
        return self.programs() / "offramp-ladder"

    def consumer(self):
        return self.programs() / "offramp-consumer"


class Installed(Places):
    """`root`: the folder of programs. What is generated goes to a folder of the user's."""

    is_installed = True
    command = "offramp"

    def __init__(self, root):
        home = os.path.expanduser("~")      # itself for a user that nobody knows
        state = os.environ.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home != "~" else f"/tmp/offramp-{os.getuid()}")
        super().__init__(root, os.environ.get("OFFRAMP_BUILD_DIR") or f"{state}/offramp")

    launch = property(lambda self: self.root / "share" / "launch")
    venv = property(lambda self: pathlib.Path(sys.prefix))
    venv_python = property(lambda self: pathlib.Path(sys.executable))
    package = property(lambda self: LAUNCHER.parent)

    def version(self):
        return re.search(r'__version__ = "([^"]+)"', (self.package / "offramp" / "_version.py").read_text())[1]

    def commit(self):
        return os.environ.get("OFFRAMP_REVISION")

    def continue_command_line(self):
        return self.command

    def programs(self):
        return pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR") or self.root / "bin").absolute()


def is_writable(folder):
    """Whether this user may make something there, with the folders that lead to it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)

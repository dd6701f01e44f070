"""Where everything lies: the repository, and the one folder that all generated files go to."""

import contextlib
import os
import pathlib
import re
import resource
import subprocess


class Places:
    def __init__(self, root=None, build=None):
        self.root = pathlib.Path(root or pathlib.Path(__file__).resolve().parents[2])
        self.build = pathlib.Path(build or os.environ.get("OFFRAMP_BUILD_DIR") or self.root / "build").absolute()

    launch = property(lambda self: self.root / "launch")
    venv = property(lambda self: self.build / "venv")
    venv_python = property(lambda self: self.venv / "bin" / "python")
    logs = property(lambda self: self.build / "logs")
    runs = property(lambda self: self.build / "runs")
    demo_images = property(lambda self: self.launch / "demo" / "images")
    demo_masks = property(lambda self: self.launch / "demo" / "masks")

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

    def producer(self):
        return self.programs() / "offramp-producer"

    def ladder(self):
        """The producer of runs whose outputs leave the device in another way than the usual one."""
        return self.programs() / "offramp-ladder"

    def consumer(self):
        return self.programs() / "offramp-consumer"


def can_be_made_in(folder):
    """Whether this user may make something there, with the folders that lead to it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)

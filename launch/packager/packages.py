"""
Makes the packages of a release, and their checksums. Builds of the same commit with the same compiler give the same
bytes: their files have the time of the commit, or of SOURCE_DATE_EPOCH.
"""

import hashlib
import os
import shutil
import sys

from packager import wheel
from packager.tools import CannotBuild, run_tool

ENDINGS = (".whl", ".tar.gz", ".deb")
SUMS = "SHA256SUMS"


def make(sources, build, into, kinds):
    """Replaces packages of the same names, and lists those that it made in SHA256SUMS. Errors: CannotBuild."""
    if (sources / ".git").exists():
        os.environ.setdefault(
            "SOURCE_DATE_EPOCH", run_tool(["git", "-C", str(sources), "log", "-1", "--format=%ct"]).strip()
        )
    into.mkdir(parents=True, exist_ok=True)
    before = states_of_packages(into)
    for kind in kinds:
        MAKERS[kind](sources, build, into)
    packages = [path for path, state in states_of_packages(into).items() if before.get(path) != state]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in packages]
    (into / SUMS).write_text("".join(lines))


def states_of_packages(folder):
    """Packages in the folder, each with a value that changes when it is made again."""
    packages = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))
    return {path: (path.stat().st_ino, path.stat().st_ctime_ns) for path in packages}


def make_sdist(sources, _, into):
    code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    run_tool([sys.executable, "-c", code, str(into)], cwd=sources)  # like a build front end


def make_debs(_, build, into):
    for tool, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file")):  # cpack uses `file` to find the programs
        if shutil.which(tool) is None:
            raise CannotBuild(f"Debian packages need {tool}. On Debian, run as root: apt-get install {package}")
    try:
        run_tool(["cpack", "--config", str(build / "CPackConfig.cmake"), "-G", "DEB", "-B", str(into)])
    finally:
        shutil.rmtree(into / "_CPack_Packages", ignore_errors=True)


MAKERS = {"wheel": wheel.make, "sdist": make_sdist, "deb": make_debs}

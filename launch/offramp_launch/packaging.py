"""The command `package`: makes a wheel and Debian packages of the build, and builds first if needed."""

import pathlib
import shutil

from offramp_launch.setup import build, environment
from offramp_launch.arguments import refuse, take_switch, take_values
from offramp_launch.exit_code import ExitCode, LaunchError, WriteError
from offramp_launch.setup.setting_up import prepare_environment
from offramp_launch.setup.steps import one_at_a_time, run_step
from offramp_launch.setup.toolchain import FLAGS as TOOLCHAIN_FLAGS

REQUIREMENTS = "requirements-package.txt"


def start(places, argv):
    flags, rest = take_values(argv, TOOLCHAIN_FLAGS)
    given, rest = take_values(rest, ("--into",))
    wheel, rest = take_switch(rest, "--wheel")
    deb, rest = take_switch(rest, "--deb")
    refuse(rest, "package", "package --help")
    into = pathlib.Path(given.get("--into") or places.build / "packages").absolute()
    require_folder(into)
    with one_at_a_time(places):
        definitions = prepare_environment(places, flags)
        environment.install_requirements(places, (REQUIREMENTS,))
        build.configure(places, "release", definitions)
        build.build(places, "release", build.PACKAGED)
        if wheel or not deb:
            make_wheel(places, into)
        if deb or not wheel:
            make_debs(places, into)
    for path in sorted(
        path for path in into.iterdir() if path.suffix in (".whl", ".deb") and f"{places.version()}" in path.name
    ):
        print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return int(ExitCode.OK)


def require_folder(into):
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise WriteError(
            f"--into {into} cannot be made: {problem.strerror}", "Give a folder that you may write to"
        ) from problem


def make_wheel(places, into):
    command = places.python_command(places.venv_python, places.launch / "packager")
    run_step(
        "wheel", [*command, str(places.root), str(places.build_folder("release")), str(into)], places.logs / "wheel.log"
    )


def make_debs(places, into):
    for tool, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file")):  # cpack uses `file` to find the programs
        if shutil.which(tool) is None:
            raise LaunchError(
                f"Debian packages need {tool}, which was not found", f"Run apt-get install {package}, on Debian 12"
            )
    folder = places.build_folder("release")
    run_step(
        "Debian packages",
        ["cpack", "--config", str(folder / "CPackConfig.cmake"), "-G", "DEB", "-B", str(into)],
        places.logs / "deb.log",
    )
    shutil.rmtree(into / "_CPack_Packages", ignore_errors=True)

"""The command `package`: makes the packages of the build and their checksums, and builds first if needed."""

import pathlib

from offramp_launch.setup import build, environment
from offramp_launch.arguments import refuse, take_switch, take_values
from offramp_launch.exit_code import ExitCode, write_errors
from offramp_launch.setup.build import prepare_environment
from offramp_launch.setup.steps import one_at_a_time, run_step
from offramp_launch.setup.toolchain import FLAGS as TOOLCHAIN_FLAGS

REQUIREMENTS = "requirements-package.txt"
KINDS = ("wheel", "sdist", "deb")


def start(places, argv):
    flags, rest = take_values(argv, TOOLCHAIN_FLAGS)
    given, rest = take_values(rest, ("--into",))
    chosen = []
    for kind in KINDS:
        is_given, rest = take_switch(rest, f"--{kind}")
        chosen += [kind] * is_given
    refuse(rest, "package", "package --help")
    into = pathlib.Path(given.get("--into") or places.build / "packages").absolute()
    with write_errors(f"--into {into} cannot be made", "Give a folder that you may write to"):
        into.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(places):
        definitions = prepare_environment(places, flags)
        environment.install_requirements(places, (REQUIREMENTS,))
        build.configure(places, "release", definitions)
        build.build(places, "release", build.PACKAGED)
        packager = places.python_command(places.venv_python, places.launch / "packager")
        made = [str(places.root), str(places.build_folder("release")), str(into)]
        run_step("packages", [*packager, *made, *(chosen or KINDS)], places.logs / "packages-made.log")
    for path in sorted(path for path in into.iterdir() if places.version() in path.name):
        print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    print(into / "SHA256SUMS")
    return int(ExitCode.OK)

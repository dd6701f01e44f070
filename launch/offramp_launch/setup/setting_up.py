"""The whole set-up in order. A step is skipped if its inputs have not changed since its last success."""

import os

from offramp_launch.setup import build, environment, toolchain
from offramp_launch.setup.steps import can_be_set_up, one_at_a_time, say


def prepare_environment(places, flags, extra_requirements=()):
    """Chooses the toolchain and installs into the venv. Returns CMake's definitions."""
    chosen = toolchain.choose(places, flags)
    if chosen.describe():
        say(f"using {chosen.describe()}")
    environment.make_venv(places)
    inputs = toolchain.resolve(places, chosen)
    # Extensions of PyTorch need the set-up's PyTorch; a user's Python is never changed.
    extra = extra_requirements if "requirements-torch.txt" in inputs.requirements else ()
    environment.install_requirements(places, (*inputs.requirements, *extra))
    return inputs.definitions


def set_up(places, flags, extra_requirements=(), builds=None):
    """The environment, and `builds`: {preset: targets}."""
    with one_at_a_time(places):
        definitions = prepare_environment(places, flags, extra_requirements)
        for preset, targets in (builds or {}).items():
            build.configure(places, preset, definitions)
            build.build(places, preset, targets)


def set_up_programs(places, flags, extra_requirements=()):
    """Uses another user's build as it is. Errors: LaunchError where that is not enough."""
    if not flags and places.producer().exists() and not can_be_set_up(places):
        say(
            f"{places.build} belongs to another user; its programs are used as they are (OFFRAMP_BUILD_DIR=FOLDER sets up another build)"
        )
        return
    set_up(places, flags, extra_requirements, {"release": build.PROGRAMS})


def set_up_python(places, flags, extra_requirements):
    """For a command that runs a script; in another user's build the environment is used as it is."""
    if not os.environ.get("OFFRAMP_BIN_DIR") and can_be_set_up(places):
        set_up(places, flags, extra_requirements)

"""The command `reload`: asks a live run to replace its consumers, and tells how far it is until it has."""

import time

from offramp_launch.exit_code import ExitCode, LaunchError

LOOK_SECONDS = 0.3


def reload(connection):
    """`connection`: a ControlClient. Ctrl-C leaves the run to go on with it."""
    reply = connection.ask({"do": "reload"})
    number, told = reply["reload"]["number"], None
    while True:
        now = reply["reload"]
        if now["number"] != number:
            raise LaunchError("another reload has taken its place", "./launch/offramp status tells how far that is", ExitCode.INTERRUPTED)
        replaced = (now["of"] - now["left"], now["of"])
        if replaced != told:
            print(f"run {reply['run_id']}: {replaced[0]} of {replaced[1]} consumers replaced", flush=True)
            told = replaced
        if now["state"] == "done":
            return int(ExitCode.OK)
        if now["state"] == "failed":
            raise LaunchError(now["why"], "", now["code"])
        time.sleep(LOOK_SECONDS)
        try:
            reply = connection.ask({"do": "status"})
        except LaunchError as problem:
            raise LaunchError(f"the run ended meanwhile, or its launcher did: {told[0]} of {told[1]} consumers had been replaced", "", problem.code) from problem

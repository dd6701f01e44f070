"""The command `reload`: asks a live run to replace its consumers, and prints the progress."""

import time

from offramp_launch.exit_code import ExitCode, LaunchError

LOOK_SECONDS = 0.3


def reload(connection):
    """`connection`: a ControlClient. After Ctrl-C the run continues the reload."""
    reply = connection.ask({"do": "reload"})
    number, shown = reply["reload"]["number"], None
    while True:
        now = reply["reload"]
        if now["number"] != number:
            raise LaunchError("another reload has superseded it", "./launch/offramp status shows its progress", ExitCode.INTERRUPTED)
        replaced = (now["of"] - now["left"], now["of"])
        if replaced != shown:
            print(f"run {reply['run_id']}: {replaced[0]} of {replaced[1]} consumers replaced", flush=True)
            shown = replaced
        if now["state"] == "done":
            return int(ExitCode.OK)
        if now["state"] == "failed":
            raise LaunchError(now["why"], "", now["code"])
        time.sleep(LOOK_SECONDS)
        try:
            reply = connection.ask({"do": "status"})
        except LaunchError as problem:
            raise LaunchError(f"the run or its launcher ended meanwhile: {shown[0]} of {shown[1]} consumers had been replaced", "", problem.code) from problem

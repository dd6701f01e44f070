"""The commands that ask a live run: `scale`, `reload`, `status`, `stop`."""

import json
import time

from offramp_launch.arguments import count, parse, refuse, take_values
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.run_dir import find_live_run
from offramp_launch.supervision.control import ControlClient

LOOK_SECONDS = 0.3


def client(places, flags):
    return ControlClient(find_live_run(places, flags.get("--run-dir")))


def scale(places, argv):
    from offramp_launch.supervision.autoscaler import are_bounds

    flags, rest = take_values(argv, ["--run-dir"])
    if not rest:
        raise UsageError(
            "scale needs a number of consumers, bounds, or auto",
            "Give one, such as ./launch/offramp scale 4, or 2..12; for a run with groups NAME=4",
        )
    wanted = rest[0] if are_bounds(rest[0]) or "=" in rest[0] else count(rest[0], "scale")
    refuse(rest[1:], "scale")
    reply = client(places, flags).ask({"do": "scale", "consumers": wanted})
    whose = f"{reply['group']}: " if reply.get("group") else ""
    print(f"run {reply['run_id']}: {whose}{reply['before']} -> {reply['consumers']} consumers{reply.get('more') or ''}")
    return int(ExitCode.OK)


def reload(places, argv):
    """Asks a live run to replace its consumers, and prints the progress. After Ctrl-C the run continues the reload."""
    flags, rest = take_values(argv, ["--run-dir"])
    refuse(rest[1:] if rest and not rest[0].startswith("-") else rest, "reload")
    connection = client(places, flags)
    reply = connection.ask({"do": "reload", "group": rest[0] if rest else ""})
    number, shown = reply["reload"]["number"], None
    while True:
        now = reply["reload"]
        if now["number"] != number:
            raise LaunchError(
                "another reload has superseded it", "./launch/offramp status shows its progress", ExitCode.INTERRUPTED
            )
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
            raise LaunchError(
                f"the run or its launcher ended meanwhile: {shown[0]} of {shown[1]} consumers had been replaced",
                "",
                problem.code,
            ) from problem


def status(places, argv):
    flags = parse(argv, "status", ["--run-dir"], ["--json"])
    reply = client(places, flags).ask({"do": "status"})
    del reply["ok"]
    if "--json" in flags:
        print(json.dumps(reply, indent=2))
        return int(ExitCode.OK)
    for line in lines_of_status(reply):
        print(line)
    return int(ExitCode.OK)


def lines_of_status(reply):
    from offramp_launch.gpus.status import lines_of_workers
    from offramp_launch.progress import describe, describe_holders
    from offramp_launch.summary import wall_clock
    from offramp_launch.watching.groups import lines_of_groups
    from offramp_launch.watching.timestamps import age_of

    now = reply["status"]
    lines = [
        f"run {reply['run_id']} ({now.get('state', 'starting')}{', ending' if reply['ending'] else ''}) in {reply['run_dir']}",
        f"  {describe(now, 'samples')}",
        f"  consumers {reply['consumers_alive']} alive, {reply['consumers_wanted']} wanted{followed(reply.get('following'))}",
    ]
    lines += [f"  group {line}" for line in lines_of_groups(reply)]
    if pids := [str(each["pid"]) for each in now.get("consumers") or [] if each.get("pid") and not each.get("end")]:
        lines.append(f"  pids      {', '.join(pids)}")
    if reply["reload"] and reply["reload"]["state"] == "running":
        lines.append(
            f"  reload    {reply['reload']['of'] - reply['reload']['left']} of {reply['reload']['of']} consumers replaced"
        )
    if (age := age_of(now, {"time": wall_clock()})) is not None and now.get("state") == "running":
        lines.append(f"  updated {age:.1f} s ago")
    lines += [*lines_of_workers(now), *describe_holders(now)]
    if now.get("slabs"):
        slabs = (f"{number} {state.replace('_', ' ')}" for state, number in now["slabs"].items() if number)
        lines.append(f"  slabs {', '.join(slabs)}")
    return lines


def followed(report):
    """Autoscaling, for the line of the number of consumers."""
    if not report:
        return ""
    mean = f", {report['mean_consumers']} on average" if report["mean_consumers"] is not None else ""
    changes = f"; changes: {report['changes']}" if report["changes"] is not None else ""
    return f" ({'within' if report['follows'] else 'no longer within'} {report['bounds']}, by load{changes}{mean})"


def stop(places, argv):
    flags = parse(argv, "stop", ["--run-dir"], ["--now"])
    connection, now = client(places, flags), "--now" in flags
    reply = connection.ask({"do": "stop", "now": now})
    print(f"run {reply['run_id']}: {'abandoning' if now else 'draining'}", flush=True)
    connection.wait_for_the_end()
    print(f"run {reply['run_id']}: ended; {reply['run_dir']}/summary.json")
    return int(ExitCode.OK)

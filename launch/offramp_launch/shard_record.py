"""What became of a shard, as its run tells it: for the record that says that it is done."""

import pathlib

from offramp_launch import job_files
from offramp_launch.exit_code import ExitCode, LaunchError


def account_of(job, index, run_dir, code):
    """
    What became of the shard's items, over all attempts. `code`: its run's. Errors: LaunchError where that is not all of them (SET_ASIDE for a run that
    ended as slab after slab failed, else CONSERVATION).
    """
    summary = job_files.read(pathlib.Path(run_dir) / "summary.json") or {}
    samples = summary.get("samples") or {}
    account = {"done": samples.get("done_before", 0) + samples.get("released", 0), "skipped": samples.get("skipped", 0),
               "set_aside": samples.get("quarantined", 0), "dropped": samples.get("dropped_when_full", 0)}
    if sum(account.values()) < job.items_of(index) and code == ExitCode.SET_ASIDE:
        raise LaunchError(summary.get("failure") or "the run ended before its input was used up, and its summary says no reason",
                          f"Mend that, and run the shard again, which goes on from there; the run is {run_dir}", ExitCode.SET_ASIDE)
    if sum(account.values()) != job.items_of(index):
        raise LaunchError(f"shard {index} has {job.items_of(index)} items, and its run accounts for {sum(account.values())}: {account}",
                          f"This is an error of Offramp's; the run is {run_dir}", ExitCode.CONSERVATION)
    return account

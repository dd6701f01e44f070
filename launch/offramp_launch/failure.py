"""Why a run did not end well: one reason with its remedy, which is the last thing that is told of it and stands in summary.json."""

import pathlib

from offramp_launch.exit_code import ExitCode, LaunchError, in_one_line
from offramp_launch.incidents import incidents_of
from offramp_launch.retries import left_of, reason_of


def failure_of(code, stopped_by, account, producers_end, finishing, run_dir):
    """
    Nothing for a run that ended with 0, else a line that is never empty. `stopped_by`: the LaunchError for which the launcher ended the
    run, if it did. `account`: the producer's summary. `producers_end`, `finishing`: why the last producer, and the program that puts
    outputs together, ended as they did, in words; None where they ended well.
    """
    if code == ExitCode.OK:
        return None
    return in_one_line(_reason_of(code, stopped_by, account, producers_end, finishing, run_dir))


def _reason_of(code, stopped_by, account, producers_end, finishing, run_dir):
    if stopped_by:
        return str(stopped_by)
    if account.get("failure"):
        return account["failure"]
    if code == ExitCode.INTERRUPTED:
        return finishing or "the run was stopped before its input was used up"
    if code == ExitCode.DEAD_LETTERS:
        samples = (account.get("samples") or {}).get("dead_letters", "some")
        return dead_letters_failure(samples, run_dir.path)
    if producers_end:
        return f"{producers_end}\n    Its log: {run_dir.log('producer')}"
    if finishing:
        return merge_failure(finishing, run_dir)
    return f"the run ended with exit code {code}, and no program said why\n    Logs: {run_dir.logs.folder}"


def is_outweighed(code, finished):
    """Whether a run that came to `code` ends with what putting its outputs together ended with: results that are not there outweigh dead letters."""
    return finished != ExitCode.OK and code in (ExitCode.OK, ExitCode.DEAD_LETTERS)


def merge_failure(why, run_dir):
    """The reason of such a run."""
    return in_one_line(f"{why}\n    Its log: {run_dir.log('finish')}")


def dead_letters_failure(samples, *run_dirs):
    """`samples`: how many. The reason is that of the first dead letter that is found."""
    reason = next((reason for each in run_dirs for reason in reasons_in(each)), None)
    return (f"{samples} {'sample was' if samples == 1 else 'samples were'} dead-lettered, since post-processing failed" + (f": {reason}" if reason else "") + "\n    Inspect them: "
            + ", ".join(f"./launch/offramp dead-letters list --run-dir {each}" for each in run_dirs))


def reasons_in(run_dir):
    try:
        incidents = incidents_of(pathlib.Path(run_dir))
    except (LaunchError, OSError):
        return []
    return [reason_of(incident) for incident in incidents.values() if left_of(incident)]

"""Why a run failed: one reason with its remedy, printed last and written into summary.json."""

import pathlib
import shlex

from offramp_launch.exit_code import ExitCode, LaunchError, in_one_line
from offramp_launch.incidents import incidents_of
from offramp_launch.retries import left_of, reason_of


def failure_of(code, stopped_by, report, producers_end, finishing, run_dir):
    """
    None for a run with exit code 0, else a non-empty line.

    `stopped_by`: the LaunchError for which the launcher ended the run, if any.
    `report`: the producer's summary. `producers_end`, `finishing`: why the last producer and the program that merges
    outputs failed; None where they did not.
    """
    if code == ExitCode.OK:
        return None
    return in_one_line(_reason_of(code, stopped_by, report, producers_end, finishing, run_dir))


def _reason_of(code, stopped_by, report, producers_end, finishing, run_dir):
    if stopped_by:
        return str(stopped_by)
    if report.get("failure"):
        return report["failure"]
    if code == ExitCode.INTERRUPTED:
        return finishing or "the run was stopped before its input was used up"
    if code == ExitCode.DEAD_LETTERS:
        samples = (report.get("samples") or {}).get("dead_letters", "some")
        return dead_letters_failure(samples, *(report.get("dead_letters_in") or [run_dir.path]))
    if producers_end:
        return f"{producers_end}\n    Its log: {run_dir.log('producer')}"
    if finishing:
        return merge_failure(finishing, run_dir)
    return f"the run ended with exit code {code}, and no program reported a reason\n    Logs: {run_dir.logs}"


def is_outweighed(code, finished):
    """Whether the exit code `finished` of merging replaces the run's `code`: missing results outweigh dead letters."""
    return finished != ExitCode.OK and code in (ExitCode.OK, ExitCode.DEAD_LETTERS)


def merge_failure(why, run_dir):
    return in_one_line(f"{why}\n    Its log: {run_dir.log('finish')}")


def dead_letters_failure(samples, *run_dirs):
    """`samples`: their number. Gives the reason of the first dead letter found."""
    reason = next((reason for each in run_dirs for reason in reasons_in(each)), None)
    command = "./launch/offramp dead-letters"
    return (
        f"{samples} {'sample was' if samples == 1 else 'samples were'} dead-lettered, since post-processing failed"
        + (f": {reason}" if reason else "")
        + "\n    Inspect them: "
        + ", ".join(f"{command} list --run-dir {shlex.quote(str(each))}" for each in run_dirs)
        + "\n    Fix the processor, then: "
        + ", ".join(f"{command} retry --all --run-dir {shlex.quote(str(each))}" for each in run_dirs)
    )


def reasons_in(run_dir):
    try:
        incidents = incidents_of(pathlib.Path(run_dir))
    except (LaunchError, OSError):
        return []
    return [reason_of(incident) for incident in incidents.values() if left_of(incident)]

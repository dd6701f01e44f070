"""The logs of a run in its directory. Logs of an earlier run stay until this one has begun."""

import contextlib
import os
import shutil

from offramp_launch.shared_folder import folder_within

LOGS, PREVIOUS_LOGS = "logs", "logs-before"
# For a run that has not begun, while an earlier one's report remains.
LOGS_NOT_BEGUN = "logs-not-begun"


class RunLogs:
    """
    Makes the folder of this run's logs, beside that of the earlier run while its report remains.
    Thread: one. Blocks: on the disk. Errors: OSError from the constructor.
    """

    def __init__(self, folder, inside, beside):
        """`folder`: the run directory, held and opened as `inside`. `beside`: an earlier run's report remains."""
        self._folder = folder
        if not os.path.lexists(folder / LOGS):
            with contextlib.suppress(FileNotFoundError):  # a launcher died in take_place()
                os.rename(LOGS_NOT_BEGUN, LOGS, src_dir_fd=inside, dst_dir_fd=inside)
        shutil.rmtree(folder / LOGS_NOT_BEGUN, ignore_errors=True)
        self._name = LOGS_NOT_BEGUN if beside else LOGS
        if not beside:
            self._move_previous(inside)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._name, 0o700, dir_fd=inside)

    folder = property(lambda self: self._folder / self._name, doc="The current folder of the logs.")

    def take_place(self):
        """Call once this run has begun: moves its logs into place. They stay where they are if that fails."""
        if self._name == LOGS:
            return
        with contextlib.suppress(OSError), folder_within(self._folder, LOGS) as (inside, _):
            self._move_previous(inside)
            os.rename(self._name, LOGS, src_dir_fd=inside, dst_dir_fd=inside)
            self._name = LOGS

    def _move_previous(self, inside):
        """Keeps the logs of the run before, and removes older ones, so that each file belongs to one run."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not os.listdir(self._folder / LOGS):
                return
            shutil.rmtree(self._folder / PREVIOUS_LOGS, ignore_errors=True)
            os.rename(LOGS, PREVIOUS_LOGS, src_dir_fd=inside, dst_dir_fd=inside)


class LogFile(os.PathLike):
    """Path of a program's log in the current folder of its run's logs. Borrows: the RunLogs."""

    def __init__(self, logs, name):
        self._logs, self._name = logs, name

    def __fspath__(self):
        return str(self._logs.folder / f"{self._name}.log")

    __str__ = __fspath__

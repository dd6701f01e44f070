"""Run directories, which hold a run's sockets, status, logs and outputs, and the search for live runs."""

import contextlib
import fcntl
import json
import os
import pathlib
import secrets
import shutil
import socket
import stat
import time

from offramp_launch import shared_folder
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, WriteError
from offramp_launch.places import is_writable
from offramp_launch.status_schema import validate_status

# A folder: what the programs of a live run share (common/shm/run_files.hpp).
LIVE = "live"
CONTROL_SOCKET, ENDPOINT = f"{LIVE}/control.sock", f"{LIVE}/endpoint"
NEEDED_OF_AN_ENDPOINT = ("run_id", "nonce", "producer_pid")  # common/transport/endpoint.hpp
# Marks a folder as a run directory.
LOCK = f"{LIVE}/launcher.lock"
STATUS, SUMMARY, SETTINGS, LOGS = "status.json", "summary.json", "config.toml", "logs"
METRICS, LOGBOOK, DROPPED = "metrics.prom", f"{LOGS}/launcher.json", "dropped.jsonl"
# Reports of a run, which give way to those of the next one in its directory. The status decides where they go, and so
# goes last.
REPORTS = (SUMMARY, SETTINGS, LOGS, METRICS, DROPPED, STATUS)
OUTPUT = "output"  # the output folder of a run without another one
BEFORE = "before"  # reports of the last run that has begun
# Bytes of path that a socket's address holds.
LONGEST_SOCKET_PATH = 107
# Longest socket name in a run directory (common/transport/endpoint.hpp).
LONGEST_SOCKET = f"{LIVE}/work-01234567.sock"


def new_run_id():
    return time.strftime("%Y%m%d-%H%M%S", time.localtime()) + "-" + secrets.token_hex(2)


def fits_a_socket(folder):
    return len(os.fsencode(str(pathlib.Path(folder) / LONGEST_SOCKET))) <= LONGEST_SOCKET_PATH


def short_runs_folder():
    """The folder that offramp.Egress also uses. Each test has a separate one, and so cannot reach other runs."""
    return pathlib.Path(os.environ.get("OFFRAMP_TEST_RUNS") or f"/tmp/offramp-{os.getuid()}").absolute()


def choose_run_dir(places, wanted, run_id, below="."):
    """--run-dir, or build/runs/ID, or one under /tmp where that is another user's, or too long for a socket."""
    if wanted:
        folder = pathlib.Path(wanted).absolute()
        if not fits_a_socket(folder / below):
            below = os.path.normpath(f"{below}/{LONGEST_SOCKET}")
            most = LONGEST_SOCKET_PATH - len(os.fsencode(below)) - 1
            raise UsageError(
                f"--run-dir '{folder}' is too long: the path of its socket {below} would exceed {LONGEST_SOCKET_PATH} bytes",
                f"Choose a path of at most {most} bytes, such as /tmp/my-run",
            )
        return folder
    folder = places.runs / run_id
    if fits_a_socket(folder / below) and is_writable(places.runs):
        return folder
    short = short_runs_folder() / run_id
    if not fits_a_socket(short / below):
        raise UsageError(
            f"the run directory '{short}' is too long: the paths of its sockets would exceed {LONGEST_SOCKET_PATH} bytes",
            "Give --run-dir a shorter path, such as /tmp/my-run",
        )
    return short


class RunDir:
    """
    Holds a run directory for the life of a run: a new one, an empty one, or one of an earlier run.
    Owns: the launcher's lock on it, and the link in build/runs to a directory elsewhere. Puts the reports of an earlier
    run aside. Errors: LaunchError when it holds anything else (USAGE), when another run lives there (RUN_IN_USE), or it
    cannot be made or is another user's. Then nothing in it has changed.
    """

    group = ""  # of a user's program, whose consumers alone run here (joined_run_dir.py)

    def __init__(self, places, folder, account=None):
        self.path = folder
        try:
            if folder.parent == short_runs_folder():
                own_folder_in_tmp(folder.parent)
            made = self._make(folder)
            with opened_folder(folder) as inside:
                self._take(folder, inside, made, account)
        except OSError as problem:
            raise WriteError(
                f"the run directory '{folder}' cannot be written ({problem.strerror})", "Choose another with --run-dir"
            ) from problem
        self._link_from(places.runs)

    @staticmethod
    def _make(folder):
        """True when it made the folder."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def _take(self, folder, inside, made, account):
        facts = os.fstat(inside)
        if facts.st_uid != os.getuid():
            raise LaunchError(
                f"the run directory '{folder}' belongs to another user (uid {facts.st_uid})",
                "Choose another with --run-dir",
                ExitCode.NOT_PERMITTED,
            )
        require_owned(folder, inside)
        if facts.st_mode & 0o022 and not made:
            raise UsageError(
                f"other users may write to --run-dir '{folder}' (mode {stat.S_IMODE(facts.st_mode):04o})",
                f"Give a folder that does not exist yet, such as {folder / 'run'}",
            )
        with contextlib.suppress(FileExistsError):
            os.mkdir(LIVE, 0o700, dir_fd=inside)
        self._hold(folder, inside)
        if account:  # the consumers' user, who opens the sockets in it
            for name in (".", LIVE):
                os.chown(name, -1, account.gid, dir_fd=inside, follow_symlinks=False)
                os.chmod(name, 0o710, dir_fd=inside)
        put_reports_aside(folder, inside, has_begun(folder))
        os.mkdir(LOGS, 0o700, dir_fd=inside)

    def _hold(self, folder, inside):
        self._lock = os.open(
            LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=inside
        )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise LaunchError(
                f"'{folder}' already has a live run",
                f"Choose another --run-dir, or end that run: ./launch/offramp stop --run-dir {folder}",
                ExitCode.RUN_IN_USE,
            ) from None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(CONTROL_SOCKET, dir_fd=inside)

    def _link_from(self, runs):
        with contextlib.suppress(OSError):
            if self.path.parent != runs:
                runs.mkdir(parents=True, exist_ok=True)
                link = runs / f"{self.path.name}-{os.stat(self.path).st_ino}"
                link.unlink(missing_ok=True)
                link.symlink_to(self.path)

    def file(self, name):
        return self.path / name

    def read_json(self, name):
        """The JSON object in a file of this run; None where there is none."""
        return read_object(self.file(name))

    def write(self, name, text):
        """Replaces a file; readers see it whole. Errors: OSError."""
        shared_folder.write(self.path, name, text.encode())

    def status(self, note=lambda left_out: None):
        """The valid part of status.json; empty without the file. Calls `note` with the names of invalid fields."""
        status, left_out = validate_status(self.read_json(STATUS) or {})
        if left_out:
            note(left_out)
        return status

    logs = property(lambda self: self.file(LOGS), doc="The folder of the programs' logs.")

    def log(self, name):
        """A program's log."""
        return self.logs / f"{name}.log"


def has_begun(folder):
    """Whether the run with the reports in this folder got as far as a status of its producer (summary.close_status)."""
    status = read_object(folder / STATUS)
    return status is not None and status.get("begun") is not False


def put_reports_aside(folder, inside, begun, reports=REPORTS):
    """
    Moves the reports in a run directory to BEFORE, in place of older ones. Removes those of a run that has not `begun`,
    so that BEFORE always has the last run that has. `inside`: the folder's descriptor. Errors: OSError.
    """
    found = [name for name in reports if os.path.lexists(folder / name)]
    if begun and found:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder / BEFORE)
        os.mkdir(BEFORE, 0o700, dir_fd=inside)
    for name in found:
        if begun:
            os.rename(name, f"{BEFORE}/{name}", src_dir_fd=inside, dst_dir_fd=inside)
        elif name == LOGS:
            shutil.rmtree(folder / LOGS)
        else:
            os.unlink(name, dir_fd=inside)


def last_begun(folder):
    """The folder with the reports of the last run in this run directory that has begun."""
    return folder / BEFORE if not has_begun(folder) and has_begun(folder / BEFORE) else folder


def read_object(file):
    """None where the file holds no JSON object."""
    try:
        value = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_status(folder):
    """The valid part of a run's status.json; empty without the file."""
    return validate_status(read_object(folder / STATUS) or {})[0]


def values_in(file):
    """The values in an endpoint's file by key, as text; empty where it is missing."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def read_endpoint(run_dir):
    """As values_in(); empty where the file is incomplete."""
    values = values_in(run_dir / ENDPOINT)
    return values if all(values.get(key) for key in NEEDED_OF_AN_ENDPOINT) and values["producer_pid"].isdigit() else {}


def read_settings(folder):
    """All settings of a run, also those that its launcher settled (settings.to_toml); empty where none are kept."""
    settings = {}
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in (folder / SETTINGS).read_text().splitlines():
            key, equals, value = line.removeprefix("# ").partition(" = ")
            with contextlib.suppress(ValueError):
                settings.update({key: json.loads(value)} if equals else {})
    return settings


@contextlib.contextmanager
def opened_folder(folder):
    """A descriptor of the current folder, even if its name later leads elsewhere."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def require_owned(folder, inside):
    """Errors: LaunchError (USAGE) where the folder is not empty and has no launcher's lock."""
    with contextlib.suppress(OSError):
        facts = os.stat(LOCK, dir_fd=inside, follow_symlinks=False)
        if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid():
            return
    if names := [name for name in os.listdir(inside) if name != OUTPUT]:
        raise UsageError(
            f"--run-dir '{folder}' is not a run's directory: it holds {len(names)} other entries, such as '{min(names)}'",
            f"Give a folder that does not exist yet, such as {folder / 'run'}, an empty one, or one of an earlier run",
        )


def own_folder_in_tmp(folder):
    """Makes a folder in /tmp, and refuses a link or folder that another user made there before."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    facts = os.lstat(folder)
    if not is_owned_by_user(facts) or facts.st_mode & 0o077:
        raise LaunchError(
            f"'{folder}' is not a private folder of this user (mode 0700)",
            "Remove it, or choose another with --run-dir",
            ExitCode.NOT_PERMITTED,
        )


def is_owned_by_user(facts):
    """Whether it is a folder, not a link, that only this user owns and may write to: so are its entries."""
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def own_runs(places):
    """The run directories of this user's runs; skips entries that another user may have placed there."""
    for runs in (places.runs, short_runs_folder()):
        with contextlib.suppress(OSError):
            if runs != places.runs and (not is_owned_by_user(os.lstat(runs)) or os.lstat(runs).st_mode & 0o077):
                continue
            for entry in sorted(os.listdir(runs)):
                with contextlib.suppress(OSError):
                    folder = (runs / entry).resolve()  # for a link its target counts
                    if is_owned_by_user(os.lstat(folder)):
                        yield folder


def require_owned_by_user(folder):
    """Errors: LaunchError (NOT_PERMITTED) where it exists and is another user's."""
    try:
        facts = os.stat(folder)
    except OSError:
        return
    if not is_owned_by_user(facts):
        raise LaunchError(
            f"'{folder}' is not this user's run directory: another user owns it, or may write to it",
            "Ask its owner, or give your own --run-dir",
            ExitCode.NOT_PERMITTED,
        )


def accepts_connections(control_socket):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.setblocking(False)
        try:
            client.connect(str(control_socket))
        except BlockingIOError:
            return True  # its queue is full: the launcher is stopped
        except OSError:
            return False
    return True


def live_runs(places, accepts=accepts_connections):
    """The run directories with a reachable launcher, each once."""
    found = {}
    for folder in own_runs(places):
        if folder not in found and (folder / CONTROL_SOCKET).exists() and accepts(folder / CONTROL_SOCKET):
            found[folder] = folder
    return list(found.values())


def find_live_run(places, wanted, accepts=accepts_connections):
    """Errors: LaunchError (NO_SUCH_RUN) without a live run, (USAGE) with several to choose from."""
    if wanted:
        folder = pathlib.Path(wanted).resolve()
        require_owned_by_user(folder)
        if not accepts(folder / CONTROL_SOCKET):
            raise LaunchError(
                f"no live run in '{folder}'",
                "./launch/offramp status finds one without --run-dir",
                ExitCode.NO_SUCH_RUN,
            )
        return folder
    runs = live_runs(places, accepts)
    if not runs:
        raise LaunchError("no live run", "./launch/offramp run starts one", ExitCode.NO_SUCH_RUN)
    if len(runs) > 1:
        listed = "".join(f"\n    --run-dir {run}" for run in runs)
        raise UsageError(f"{len(runs)} runs are live; choose one:{listed}", "")
    return runs[0]

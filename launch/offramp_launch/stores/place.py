"""
`--output s3://BUCKET/PREFIX`, gs://, az://: results of single samples become objects, before their slab counts as done.

RUN_DIR/output stays the run's output folder. It has the lock, the checkpoint and the results of the whole run, such as
masks.jsonl, which the run stores as objects at its end. RUN_DIR/output/.offramp-store names the URL and the work. The
object PREFIX/.offramp-output names the work that owns the prefix, and where its run directory is. It is created only if
it does not exist, so that one work of two gets the prefix; all objects of the work carry its name.

--resume needs the run directory: it is found by PREFIX/.offramp-output on the same host, or given by --run-dir, such as
a copy from another host.
"""

import contextlib
import json
import os
import pathlib
import re
import secrets
import shlex
import shutil
import socket
import sys

from offramp_launch import shared_folder
from offramp_launch.arguments import setting_given, take_values
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.output_folder import OWNER, STORE, describe_work, holds_work, is_bare
from offramp_launch.places import LAUNCHER
from offramp_launch.stores.store import URL, Failed, Refused, Store, Unavailable, flaw_of, vendor_of

FLAG, VARIABLE = "--output", "OFFRAMP_OUTPUT"
UPLOADER = "OFFRAMP_UPLOADER"  # consumer/worker/uploads.cpp
UPLOADS = "live/uploads"  # in the run directory: common/shm/run_files.hpp
DATABASES = re.compile(r"records|.*-(sqlite|postgres)")
# Settings that do not go with a URL, and why.
REFUSED = {
    "overwrite": "objects cannot be renamed: give another prefix",
    "consumer-user": "consumers of another user have other credentials",
    "tile": "tiles are joined in files that the objects would replace",
}


def url_given(argv, environment=os.environ):
    """The object store's URL in --output, its variable or the settings file; empty for a folder. Errors: UsageError."""
    given = setting_given("output", argv, environment)
    if not URL.match(given):
        return ""
    if flaw := flaw_of(given):
        raise UsageError(
            f"--output is a URL with {flaw}",
            f"Give {vendor_of(given).place}, and credentials in the environment",
        )
    return given


def take(argv):
    """
    (the Place of an --output in an object store, or None; argv for programs, which write to RUN_DIR/output). Removes
    the variable, too. Call it before any program is asked.
    """
    url = url_given(argv)
    if not url:
        return None, argv
    os.environ.pop(VARIABLE, None)
    return Place(url), [*take_values(argv, (FLAG,))[1], FLAG, ""]


def launcher_command(command):
    return [sys.executable, "-E", "-s", "-B", str(LAUNCHER), command]


def print_run_dir(_, argv):
    """For an Egress that resumes: prints the run directory of the work in argv's URL, or nothing."""
    print(Place(argv[0]).run_dir_of_work() or "")
    return int(ExitCode.OK)


class Place:
    """
    The prefix of a run's objects. Owns: nothing. Thread: one. Blocks: on the network. Errors: LaunchError.
    """

    def __init__(self, url):
        self.url = url.rstrip("/")
        self.work = ""  # its name, once claimed
        self._opened = None

    def refuse_settings(self, config):
        for name, why in REFUSED.items():
            if config.get(name):
                raise UsageError(f"--{name} does not go with --output {self.url}: {why}", f"Leave --{name} out")
        for processor in config.get("processor", "").split(","):
            if DATABASES.fullmatch(processor):
                raise UsageError(
                    f"--processor {processor} does not go with --output {self.url}: it writes a database, not files",
                    "Give it a run with a local --output, or choose npy, safetensors, mask-png or embeddings-parquet",
                )
            if processor == "write":
                raise UsageError(
                    f"--processor write does not go with --output {self.url}: it writes to --write-path",
                    "Leave --output out, or choose npy or safetensors",
                )

    def settle_run_dir(self, config):
        """With --resume, the run directory is that of the work in the prefix, unless --run-dir names a copy."""
        if config.get("resume") and not config.get("run-dir"):
            config["run-dir"] = self.run_dir_of_work()

    def run_dir_of_work(self):
        """None where the prefix has no work."""
        owner = self._owner()
        if owner is None:
            return None
        folder = str(owner.get("run_dir"))
        noted = _note_in(os.path.join(folder, "output"))
        if noted and noted["work"] == owner["work"]:
            return folder
        raise UsageError(
            f"{self.url} holds {self._described(owner)}, whose checkpoint is not in {folder} on this host",
            f"Continue on {owner.get('host')}; or copy that folder here, and name the copy with --run-dir",
        )

    @contextlib.contextmanager
    def held(self, plan, config, stage):
        """
        Claims the prefix for the work in `stage`, the run's output folder, which the caller has locked. Consumers that
        start within it store their files. A run that has made nothing gives the prefix up.
        """
        self._translated(lambda: self._claim(plan, config, stage))
        os.environ[UPLOADER] = shlex.join([*launcher_command("uploader-of-a-consumer"), self.url, self.work])
        spool = os.path.join(plan.run_dir.path, UPLOADS)
        shutil.rmtree(spool, ignore_errors=True)  # of consumers that were killed
        plan.place = self
        try:
            yield
        finally:
            os.environ.pop(UPLOADER, None)
            shutil.rmtree(spool, ignore_errors=True)
            if is_bare(stage):
                with contextlib.suppress(LaunchError, OSError):
                    self._translated(lambda: self._give_up(stage))

    def command_for_whole_files(self, stage):
        """The command that stores the files of the whole run, after they are merged."""
        return [*launcher_command("upload-of-a-run"), self.url, self.work, stage]

    def _claim(self, plan, config, stage):
        noted, owner, resumes = _note_in(stage), self._owner(), config.get("resume")
        if noted and noted["url"] != self.url:
            raise UsageError(
                f"the run directory {plan.run_dir.path} belongs to the work in {noted['url']}",
                "Give that --output with --resume, or another --run-dir",
            )
        if not noted and holds_work(stage):
            raise UsageError(
                f"{stage} holds {describe_work(stage)}, which is not in an object store", "Give another --run-dir"
            )
        if owner and (not noted or noted["work"] != owner["work"]):
            raise UsageError(
                f"--output {self.url} holds {self._described(owner)}",
                "Give its --run-dir, or leave --run-dir out"
                if resumes
                else "Give another prefix, or --resume to continue that work",
            )
        is_used = bool(noted) and not (is_bare(stage) and self._has_no_results())
        if owner and is_used and not resumes:
            raise UsageError(
                f"--output {self.url} holds {describe_work(stage)}", "Give --resume to continue it, or another prefix"
            )
        if not owner and is_used:
            raise UsageError(
                f"{self.url}/{OWNER} is gone, and other results may be, too: {stage} has {describe_work(stage)}",
                "Give another --run-dir to begin anew",
            )
        self.work = noted["work"] if noted else f"{plan.run_id}-{secrets.token_hex(8)}"
        if owner:
            self._store().store_file(OWNER, self._write_owner(stage, plan), self.work)
            return
        if not noted and (found := self._store().names(1)):
            raise UsageError(
                f"--output {self.url} is not empty: it holds {found[0]}, which is of no work in this prefix",
                "Give a prefix without objects",
            )
        shared_folder.write(stage, STORE, json.dumps({"url": self.url, "work": self.work}).encode())
        text = pathlib.Path(self._write_owner(stage, plan)).read_bytes()
        if not self._store().create(OWNER, text, self.work):
            raise LaunchError(f"another run has taken {self.url}", "Give this run another prefix", ExitCode.RUN_IN_USE)
        self._require_conditions()

    def _require_conditions(self):
        """A store that ignores conditions would replace the object."""
        if self._store().create(OWNER, b"{}", self.work):
            self._store().remove(OWNER)
            raise UsageError(
                f"{self.url} is in a store that ignores conditional writes: results of other runs could be replaced",
                "Update the server, or give a local --output and copy the results",
            )

    def _write_owner(self, stage, plan):
        """The path of the file that becomes PREFIX/.offramp-output."""
        facts = {
            "offramp_output": 1,
            "work": self.work,
            "run": plan.run_id,
            "host": socket.gethostname(),
            "run_dir": str(plan.run_dir.path),
        }
        shared_folder.write(stage, OWNER, json.dumps(facts).encode())
        return os.path.join(stage, OWNER)

    def _has_no_results(self):
        return self._store().names(2) in ([], [OWNER])

    def _give_up(self, stage):
        if self._has_no_results():
            self._store().remove(OWNER)
            for name in (OWNER, STORE):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(stage, name))

    def _owner(self):
        text = self._translated(lambda: self._store().read(OWNER))
        if text is None:
            return None
        try:
            owner = json.loads(text)
            return {**owner, "work": str(owner["work"])}
        except (ValueError, KeyError, TypeError) as problem:
            raise UsageError(
                f"{self.url}/{OWNER} does not name the work that owns the prefix", "Give another prefix"
            ) from problem

    def _described(self, owner):
        return f"the work of run {owner.get('run')} (host {owner.get('host')}, --run-dir {owner.get('run_dir')})"

    def _store(self):
        self._opened = self._opened or Store(self.url)
        return self._opened

    def _translated(self, call):
        try:
            return call()
        except Unavailable as problem:
            raise LaunchError(
                f"--output {self.url} is unavailable: {problem}",
                f"Try again later; check the network and {vendor_of(self.url).server}",
                ExitCode.SINK_UNAVAILABLE,
            ) from problem
        except (Refused, Failed) as problem:
            raise UsageError(
                f"--output {self.url} cannot be written: {problem}",
                f"Check the {vendor_of(self.url).bucket}'s name, and the credentials: {vendor_of(self.url).credentials}",
            ) from problem


def noted_in(stage):
    """The Place of the run whose output folder this is; None for local results."""
    noted = _note_in(stage)
    return Place(noted["url"]) if noted else None


def _note_in(stage):
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(shared_folder.read(stage, STORE))
        return {"url": str(noted["url"]), "work": str(noted["work"])}
    return None

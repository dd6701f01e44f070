"""
Runs a job's shards (`offramp job init`) on a Ray cluster: actors run `offramp shard`, one index after another. Ray
transfers only indices and exit codes; inputs and results stay out of its object store. A Writer sends batches of a Ray
data set to consumers. Import this module only if Ray is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import heapq
import importlib
import json
import os
import pathlib
import secrets
import shlex
import signal
import sys
import threading
import time
from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence

from offramp import _ray_worker, _validate
from offramp._consumers import LAST_OUTPUT_BYTES, final_messages, run_launcher
from offramp._dead_letters import typed_launcher
from offramp._errors import BadArgument, Error, RunInUse, SystemFailure
from offramp._packages import needs
from offramp._ray_worker import FIRST_SIGNAL, TRY_AGAIN, Worker, begin_of, log_path
from offramp._ray_writer import Writer as Writer, merge as merge

with needs("offramp.ray", "ray"):
    ray: Any = importlib.import_module("ray")  # untyped, and absent where types are checked
ray.cloudpickle.register_pickle_by_value(_ray_worker)  # a node needs only the command, not the package

DONE, INTERRUPTED = 0, 130
OF_EVERY_SHARD = ("--job", "--index", "--lifeline-fd", "-h", "--help")  # set by the driver, or without effect on work
LOOK_SECONDS = 1.0
WARNING_INTERVAL_SECONDS = 60


class ShardFailed(Error):
    """
    A shard failed permanently or used up its attempts. `index`: the shard. `code`: its exit code
    (launch/guide/reference/exit-codes.md).
    """

    def __init__(self, text: str, index: int, code: int):
        super().__init__(text)
        self.index = index
        self.code = code


def run(
    job: str | os.PathLike[str],
    address: str | None = None,
    num_gpus: float = 1,
    attempts: int = 5,
    *,
    num_cpus: float = 1,
    resources: Mapping[str, float] | None = None,
    workers: int = 0,
    flags: Sequence[str] = (),
    offramp: str | None = None,
    pause: float = 10,
    say: Callable[[str], None] = print,
) -> int:
    """
    Runs the unfinished shards of a job and returns how many it ran. If the driver is killed, repeat the call to
    continue.

    job: the folder of `offramp job init`, at the same path on all nodes. address: for ray.init(); ignored if Ray is
    connected. num_gpus, num_cpus, resources: a worker's resources; for CPU jobs pass num_gpus=0. workers: the most
    workers; 0: as many as fit the cluster, also when it grows. flags: for `offramp shard`, such as ["--consumers",
    "4"]. offramp: the command on all nodes. Default: launch/offramp in a checkout, else the `offramp` of the workers'
    Python or PATH. attempts: tries per shard. pause: seconds before the second try, doubled for each further one. say:
    prints progress. Blocks until all shards are done.

    Errors: ShardFailed; RunInUse if another driver runs this job; BadArgument for invalid arguments; Error with the
    code of `job status` if the folder is not a job; SystemFailure if workers die before they start; Ray's own
    exceptions.
    """
    further = {} if resources is None else _validate.mapping("resources", resources, "{'fast_disk': 1}")
    needs = {
        name: required
        for name, given in {"GPU": num_gpus, "CPU": num_cpus, **further}.items()
        if (required := _validate.number(f"a worker's {_validate.text('a resource', name)}", given))
    }
    attempts = _validate.whole("attempts", attempts, sys.maxsize, "1 or more", least=1)
    workers = _validate.whole("workers", workers, sys.maxsize, "1 or more")
    pause = _validate.seconds("pause", pause)
    flags = [_validate.text("a flag", word) for word in _validate.sequence("flags", flags, "['--consumers', '4']")]
    offramp = None if offramp is None else _validate.path("offramp", offramp)
    address = None if address is None else _validate.text("address", address)
    if not callable(say):
        raise BadArgument(f"say is {say!r:.80}. Give a function of a str, such as print")
    require(pause, needs, flags)
    folder = pathlib.Path(_validate.path("job", job)).absolute()
    missing: Sequence[int] = status_of(folder)["missing"]
    if missing:
        with alone(folder), connected(address):
            Driver(
                folder, missing, needs, workers, attempts, pause, (folder, command_on_nodes(offramp), tuple(flags)), say
            ).run()
        require_done(folder)
    return len(missing)


def require_done(folder: pathlib.Path) -> None:
    """Checks that every shard has a record: a wrong command can exit with 0. Errors: ShardFailed."""
    if missing := status_of(folder)["missing"]:
        raise ShardFailed(
            f"the commands of all shards exited with 0, but these shards have no record: {', '.join(map(str, missing))}. Read {log_path(folder, missing[0])}, "
            "check that --offramp names Offramp's command, and run the same command again",
            missing[0],
            TRY_AGAIN,
        )


def require(pause: float, needs: Mapping[str, float], flags: Sequence[str]) -> None:
    if not pause >= 0:
        raise BadArgument(f"pause is {pause}. Give 0 seconds or more")
    if not needs or min(needs.values()) < 0:
        raise BadArgument(
            f"a worker requests {needs or 'no resources'}, so the number of workers per node is unknown. Give num_gpus or num_cpus"
        )
    for word in flags:
        if word.partition("=")[0] in OF_EVERY_SHARD:
            raise BadArgument(f"'{word}' cannot be passed in flags, which are the same for all shards. Omit it")


def status_of(folder: pathlib.Path) -> dict[str, Any]:
    """The output of `job status --json`. Errors: BadArgument, or Error with the command's code and message."""
    code, output, message = run_launcher("job", "status", "--json", "--job", str(folder))
    if code != 0:
        refused = (BadArgument if code == BadArgument.code else Error)(message)
        refused.code = code if code > 0 else FIRST_SIGNAL - code
        raise refused
    status: dict[str, Any] = json.loads(output)
    return status


def command_on_nodes(given: str | None) -> str:
    return given or typed_launcher()


@contextlib.contextmanager
def alone(folder: pathlib.Path) -> Iterator[None]:
    """Locks the job for one driver. If the folder cannot be locked, the shards' own locks remain. Errors: RunInUse."""
    with contextlib.ExitStack() as kept:
        with contextlib.suppress(OSError):
            lock = os.open(folder / "ray.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            kept.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunInUse(
                    f"another driver runs the job {folder}. Wait for it, or end it and run this command again"
                ) from None
        yield


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    ray.init(address=address)
    try:
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's handler would end the program with 15
        yield
    finally:
        ray.shutdown()


class Driver:
    """Schedules shards on actors. Owns: the actors. A lost actor is never reused."""

    def __init__(
        self,
        folder: pathlib.Path,
        missing: Sequence[int],
        needs: Mapping[str, float],
        workers: int,
        attempts: int,
        pause: float,
        to_workers: tuple[pathlib.Path, str, Sequence[str]],
        say: Callable[[str], None],
    ):
        self._folder, self._needs, self._most, self._attempts, self._pause, self._say = (
            folder,
            needs,
            workers,
            attempts,
            pause,
            say,
        )
        self._worker_arguments = to_workers
        self._left = set(missing)
        self._queue = [(0.0, index) for index in missing]  # (earliest start, shard)
        self._tries = dict.fromkeys(missing, 0)
        self._failed_shards: dict[int, str] = {}
        self._actors: list[Any] = []
        self._idle: list[Any] = []
        self._calls: dict[Any, tuple[Any, int | None]] = {}
        self._failed_starts = 0
        self._token = secrets.token_hex(4)  # distinguishes this driver's attempts from another's
        self._active_at = time.monotonic()

    def run(self) -> None:
        try:
            while self._left:
                self._adjust_workers()
                self._hand_out()
                self._warn_if_idle()
                for call in self._answered():
                    self._take(call)
        finally:
            for actor in self._actors:
                ray.kill(actor)
        if self._failed_shards:
            index, why = next(iter(self._failed_shards.items()))
            raise ShardFailed(
                f"{len(self._failed_shards)} shards were tried {self._attempts} times and are not done: {', '.join(map(str, self._failed_shards))}; shard {index}: "
                f"{why}. Fix that and run the same command again; finished shards are kept",
                index,
                TRY_AGAIN,
            )

    def _adjust_workers(self) -> None:
        wanted = min(len(self._left), max(1, self._room()), self._most or sys.maxsize)
        for _ in range(wanted - len(self._actors)):
            others = {name: number for name, number in self._needs.items() if name not in ("CPU", "GPU")}
            actor = (
                ray.remote(Worker)
                .options(
                    num_cpus=self._needs.get("CPU", 0),
                    num_gpus=self._needs.get("GPU", 0),
                    resources=others,
                    max_restarts=0,
                    max_task_retries=0,
                )
                .remote(*self._worker_arguments)
            )
            self._actors.append(actor)
            self._calls[actor.ready.remote()] = (actor, None)
        while self._idle and len(self._actors) > len(self._left):
            self._dismiss(self._idle.pop())

    def _room(self) -> int:
        """How many workers fit on the living nodes."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return sum(min(int(node.get(name, 0) / number) for name, number in self._needs.items()) for node in nodes)

    def _hand_out(self) -> None:
        """Assigns shards only to workers that are scheduled."""
        while self._idle and self._queue and self._queue[0][0] <= time.monotonic():
            _, index = heapq.heappop(self._queue)
            actor = self._idle.pop(0)  # a worker whose shard just ended comes last: its node may be the problem
            self._tries[index] += 1
            self._calls[actor.do.remote(index, self._attempt(index))] = (actor, index)

    def _attempt(self, index: int) -> str:
        return f"{self._token}-{self._tries[index]}"

    def _warn_if_idle(self) -> None:
        if any(index is not None for _, index in self._calls.values()):
            self._active_at = time.monotonic()
        elif time.monotonic() > self._active_at + WARNING_INTERVAL_SECONDS:
            self._active_at = time.monotonic()
            self._say(
                f"[ray] no worker runs: {len(self._left)} shards are left, a worker needs {self._needs}, and the cluster's nodes have room for {self._room()} workers, "
                "minus those in use by others"
            )

    def _answered(self) -> list[Any]:
        if not self._calls:
            time.sleep(LOOK_SECONDS)
            return []
        answered: list[Any] = ray.wait(list(self._calls), num_returns=1, timeout=LOOK_SECONDS)[0]
        return answered

    def _take(self, call: Any) -> None:
        actor, index = self._calls.pop(call)
        try:
            code = ray.get(call)
        except ray.exceptions.RayError as problem:  # the actor, its node or the memory monitor ended it
            self._dismiss(actor)
            why = f"its worker was lost ({type(problem).__name__})"
            return self._count_failed_start(why) if index is None else self._try_again(index, why)
        self._idle.append(actor)
        self._failed_starts = 0
        if index is None:
            return
        if code == DONE:
            self._left.discard(index)
            self._say(f"[ray] shard {index} is done; {len(self._left)} are left")
        elif code == TRY_AGAIN or code > FIRST_SIGNAL:
            self._try_again(index, f"it ended with {describe_exit(code)}: {self._messages_of(index)}")
        else:
            raise ShardFailed(
                f"shard {index} ended with exit code {code}, which a retry cannot fix: {self._messages_of(index)} (log: "
                f"{log_path(self._folder, index)})",
                index,
                code,
            )

    def _count_failed_start(self, why: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= self._attempts:
            raise SystemFailure(
                f"{self._failed_starts} workers were lost in a row before they started; the last: {why}. Read Ray's logs"
            )

    def _try_again(self, index: int, why: str) -> None:
        tries = self._tries[index]
        self._say(f"[ray] shard {index}, attempt {tries} of {self._attempts}: {why}")
        if tries >= self._attempts:
            self._left.discard(index)
            self._failed_shards[index] = why
        else:
            heapq.heappush(self._queue, (time.monotonic() + self._pause * 2 ** (tries - 1), index))

    def _messages_of(self, index: int) -> str:
        """The messages of the last attempt; the log also has earlier ones."""
        with contextlib.suppress(OSError):
            _, found, output = (
                log_path(self._folder, index).read_bytes().rpartition(begin_of(self._attempt(index)).encode())
            )
            if found:
                return final_messages(output.partition(b"\n")[2][-LAST_OUTPUT_BYTES:].decode(errors="replace"))
        return "it could not write its log"

    def _dismiss(self, actor: Any) -> None:
        self._actors.remove(actor)
        ray.kill(actor)


def describe_exit(code: int) -> str:
    with contextlib.suppress(ValueError):
        if code > FIRST_SIGNAL:
            return f"exit code {code} ({signal.Signals(code - FIRST_SIGNAL).name})"
    return f"exit code {code}"


def resource(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    return name, float(number)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadArgument(f"job ray: {message}. See --help")


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog=f"{typed_launcher()} job ray",
        allow_abbrev=False,
        description="Runs the shards of a job on a Ray cluster. launch/guide/many-gpus-and-hosts.md",
    )
    parser.add_argument("--job", required=True, help="folder of `offramp job init`, visible to all nodes")
    parser.add_argument(
        "--address",
        default="auto",
        help="address of the cluster; local: a cluster on this machine for this command [auto]",
    )
    parser.add_argument("--num-gpus", type=float, default=1, help="GPUs per worker; 0 for CPUs [1]")
    parser.add_argument("--num-cpus", type=float, default=1, help="CPUs per worker [1]")
    parser.add_argument(
        "--resource",
        dest="resources",
        action="append",
        default=[],
        type=resource,
        metavar="NAME=NUMBER",
        help="further resource per worker; repeatable",
    )
    parser.add_argument(
        "--workers", type=int, default=0, help="maximum number of workers [0: as many as fit the cluster]"
    )
    parser.add_argument("--attempts", type=int, default=5, help="attempts per shard [5]")
    parser.add_argument(
        "--pause", type=float, default=10, help="seconds before the second attempt; doubles with each further one [10]"
    )
    parser.add_argument("--offramp", help="offramp command on the nodes")
    parser.add_argument(
        "--flags", type=shlex.split, default=[], help="flags for each shard, as one argument: --flags='--consumers 4'"
    )
    try:
        given = vars(parser.parse_args(argv))
        done = run(**{**given, "resources": dict(given["resources"])}, say=lambda text: print(text, flush=True))
    except Error as problem:
        print(f"offramp: {problem}", file=sys.stderr)
        return problem.code
    # for example, the cluster has another version
    except (
        ValueError,
        ConnectionError,
        RuntimeError,
        ray.exceptions.RayError,
    ) as problem:
        print(f"offramp: Ray: {problem}", file=sys.stderr)
        return SystemFailure.code
    except KeyboardInterrupt:
        print("offramp: interrupted. Run the same command to continue", file=sys.stderr)
        return INTERRUPTED
    print(
        f"[ray] all shards are done, {done} of them now\n"
        f"  then       {typed_launcher()} job merge --job {shlex.quote(given['job'])}",
        flush=True,
    )
    return DONE


if __name__ == "__main__":
    sys.exit(main())

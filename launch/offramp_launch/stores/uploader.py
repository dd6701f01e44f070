"""The processes that store a run's files: one of each consumer, and one at the end for whole-run files."""

import concurrent.futures
import json
import os
import sys

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.stores.store import Failed, Refused, Store, Unavailable

PARALLEL = 8  # requests of one consumer
PROGRESS_SECONDS = 1
OF_OFFRAMP = ".offramp-"  # temporary files


def serve(_, argv):
    """
    `argv`: URL, name of the work, folder. Each line on standard input asks for the files in the folder to be stored and
    removed. The answer is {"progress": true} any number of times, then one of

        {"stored": NUMBER}
        {"unavailable": WHY}    try again later
        {"failed": WHY}         this slab's files cannot be stored
        {"refused": WHY}        no file can be stored
    """
    url, work, folder = argv
    store = None
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for _ in sys.stdin.buffer:
            try:
                store = store or Store(url)
                names = names_in(folder, hidden=True)
                store_all(store, pool, folder, names, work, lambda: answer(progress=True))
                for name in names:
                    os.unlink(os.path.join(folder, name))
                answer(stored=len(names))
            except Unavailable as problem:
                answer(unavailable=str(problem))
            except Refused as problem:
                answer(refused=str(problem))
            except LaunchError as problem:
                answer(refused=problem.in_one_line())
            except (Failed, OSError) as problem:
                answer(failed=str(problem))
            except Exception as problem:  # an answer counts a failure with its reason
                answer(failed=f"{type(problem).__name__}: {problem}")
    return int(ExitCode.OK)


def store_once(_, argv):
    """`argv`: URL, name of the work, folder. Stores the files in the folder, which stay, without hidden ones."""
    url, work, folder = argv
    try:
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            store_all(Store(url), pool, folder, names_in(folder, hidden=False), work, lambda: None)
        return int(ExitCode.OK)
    except Unavailable as problem:
        why, code = str(problem), ExitCode.SINK_UNAVAILABLE
    except (Refused, Failed, OSError) as problem:
        why, code = str(problem), ExitCode.CANNOT_WRITE
    raise LaunchError(f"{url}: {why}. Continue with --resume", "", code)


def store_all(store, pool, folder, names, work, progress):
    """Calls `progress` while it waits. Errors: those of Store.store_file()."""
    open_puts = {pool.submit(store.store_file, name, os.path.join(folder, name), work) for name in names}
    try:
        while open_puts:
            done, open_puts = concurrent.futures.wait(open_puts, PROGRESS_SECONDS, concurrent.futures.FIRST_COMPLETED)
            progress()
            for put in done:
                put.result()
    finally:
        for put in open_puts:
            put.cancel()
        concurrent.futures.wait(open_puts)


def names_in(folder, hidden):
    """The files below a folder, as names of objects. `hidden`: also hidden ones, but for those that begin .offramp-."""
    names, left_out = [], OF_OFFRAMP if hidden else "."
    for below, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(left_out)]
        kept = [os.path.join(below, name) for name in files if not name.startswith(left_out)]
        names += [os.path.relpath(path, folder) for path in kept]
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise Failed(f"the file name {name!r} is not UTF-8, which names of objects must be") from None
    return names


def answer(**values):
    print(json.dumps(values), flush=True)

"""
Files of a job's folder, which hosts share: each is made once, whole or not at all, by link(), which is one step on every file system that
hosts share; who comes second finds the first one's. No clock and no lock decides anything.
"""

import contextlib
import errno
import json
import os
import secrets

from offramp_launch.exit_code import NO_ROOM, ExitCode, LaunchError, way_to_write

# Of a file system where a file has one name.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
READ_ONLY = (*NO_ROOM, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)


def put_once(path, value):
    """
    Makes the file with this JSON value, where there is none. Returns whether it did: else another's is there, whole, and stays. Killed at any
    step it has made the file or it has not; a temporary file may be left, which nobody reads. Errors: LaunchError (CANNOT_WRITE).
    """
    with told(path):
        temporary = write_temporary(path, (json.dumps(value, indent=2) + "\n").encode())
        return link(temporary, path)


def write_temporary(path, content):
    """A file of its own beside `path`, on the disk."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def link(temporary, path):
    """Gives the temporary file its name, where nothing has that, and whether it did; the temporary one goes. Errors: LaunchError, where no file has two."""
    try:
        os.link(temporary, path)
        made = True
    except OSError as problem:
        if problem.errno in NO_LINKS:
            raise LaunchError(f"{path.parent} lies on a file system without hard links ({problem.strerror}), by which hosts agree who was first",
                              "Put --output, and --job where it is given, on one that has them, such as NFS, Lustre, CephFS, or a local disk", ExitCode.CONFIG) from problem
        # Over a network the answer may be lost, and the same request made again: what counts is whether the file has two names.
        made = os.stat(temporary).st_nlink == 2
        if not made and not os.path.exists(path):
            raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return made


def replace(path, value):
    """The file with this JSON value, in the place of the one that may be there. Errors: LaunchError (CANNOT_WRITE)."""
    with told(path):
        os.replace(write_temporary(path, (json.dumps(value, indent=2) + "\n").encode()), path)


def read(path):
    """The JSON value of a file; None where there is none. Errors: LaunchError (BAD_INPUT) where it is none of ours."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as problem:
        raise LaunchError(f"{path} is damaged, or not a file of a job: {problem}", "Files of a job appear whole: look at what wrote there, or begin another job",
                          ExitCode.BAD_INPUT) from problem
    except OSError as problem:
        raise LaunchError(f"{path} cannot be read: {problem.strerror}", "Look whether the folder that all hosts share is there", ExitCode.SYSTEM) from problem


def make_folder(path, parents=True):
    with told(path):
        path.mkdir(parents=parents, exist_ok=True)


@contextlib.contextmanager
def told(path):
    """Errors: LaunchError (CANNOT_WRITE) for what keeps a file of the job from being written."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in READ_ONLY and problem.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EEXIST):
            raise
        raise LaunchError(f"{path} cannot be written: {problem.strerror}", way_to_write(problem, "Make room in the job's folder, or make it writable"),
                          ExitCode.CANNOT_WRITE) from problem

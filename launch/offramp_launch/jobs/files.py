"""Files in a job's folder, which hosts share. link() creates each once and atomically; no clock or lock decides."""

import contextlib
import errno
import json
import os
import secrets
import shutil

from offramp_launch.exit_code import ExitCode, InputError, LaunchError, NO_ROOM, WriteError, way_to_write

# From a file system without hard links.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
READ_ONLY = (*NO_ROOM, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)
# Identities of folders whose own names are on the disk, up to the root of the file system.
flushed_folders: set[tuple[int, int]] = set()


def put_once(path, value):
    """
    Creates the file with this JSON value if it does not exist. Returns whether it did; else the existing file stays. A
    kill at any step leaves the file complete or absent, and perhaps an unused temporary file. Errors: LaunchError
    (CANNOT_WRITE).
    """
    with write_errors(path):
        temporary = write_temporary(path, (json.dumps(value, indent=2) + "\n").encode())
        made = link(temporary, path)
        flush_names(path.parent)
        return made


def write_temporary(path, content):
    """A new file beside `path`, flushed to the disk."""
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


def flush_names(folder):
    """Returns once the names in the folder are on the disk, and those of the folders above it on its file system."""
    folder = os.path.realpath(folder)
    flush_folder(folder)
    flushed = []
    while (inner := identity_of(folder)) not in flushed_folders:
        above = os.path.dirname(folder)
        if above == folder or identity_of(above)[0] != inner[0] or not os.access(above, os.R_OK):
            break
        try:
            flush_folder(above)
        except OSError as problem:
            if problem.errno != errno.EROFS:  # else its names are older than this command
                raise
        flushed.append(inner)
        folder = above
    flushed_folders.update(flushed)


def flush_folder(folder):
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(inside)
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # else the file system cannot flush a folder
            raise
    finally:
        os.close(inside)


def identity_of(folder):
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def link(temporary, path):
    """
    Renames `temporary` to `path` unless that exists, and removes it in any case. Returns whether it was renamed.
    Errors: LaunchError, if there are no hard links.
    """
    try:
        os.link(temporary, path)
        made = True
    except OSError as problem:
        if problem.errno in NO_LINKS:
            raise LaunchError(
                f"{path.parent} is on a file system without hard links ({problem.strerror}); hosts need them to agree which was first",
                "Put --output, and --job if given, on a file system with hard links, such as NFS, Lustre, CephFS, or a local disk",
                ExitCode.CONFIG,
            ) from problem
        # A network may lose the answer and repeat the request: two names for the file mean success.
        made = os.stat(temporary).st_nlink == 2
        if not made and not os.path.exists(path):
            raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return made


def replace(path, value):
    """Writes the file with this JSON value, or replaces it. Errors: LaunchError (CANNOT_WRITE)."""
    with write_errors(path):
        os.replace(write_temporary(path, (json.dumps(value, indent=2) + "\n").encode()), path)
        flush_names(path.parent)


def read(path):
    """A file's JSON value; None if it does not exist. Errors: LaunchError (BAD_INPUT) if it is not a job's file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as problem:
        raise InputError(
            f"{path} is damaged, or not a file of a job: {problem}",
            "Offramp writes these files atomically: find what changed it, or begin another job",
        ) from problem
    except OSError as problem:
        raise LaunchError(
            f"{path} cannot be read: {problem.strerror}", "Check that the shared folder is mounted on this host"
        ) from problem


def make_folder(path, parents=True):
    with write_errors(path):
        path.mkdir(parents=parents, exist_ok=True)


def remove_folder(path, remedy):
    """Removes the folder if it exists, also while others remove files there. Errors: LaunchError (CANNOT_WRITE)."""
    try:
        while path.is_dir():
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
    except OSError as problem:
        raise WriteError(f"{problem.filename or path} cannot be removed: {problem.strerror}", remedy) from problem


@contextlib.contextmanager
def write_errors(path):
    """Turns an OSError that prevents writing a job's file into a LaunchError (CANNOT_WRITE)."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in READ_ONLY and problem.errno not in (
            errno.ENOENT,
            errno.ENOTDIR,
            errno.ENAMETOOLONG,
            errno.EEXIST,
        ):
            raise
        raise WriteError(
            f"{path} cannot be written: {problem.strerror}",
            way_to_write(problem, "Make room in the job's folder, or make it writable"),
        ) from problem

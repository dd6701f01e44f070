"""Files in a folder where other users may write, such as links, pipes and endless files: never follows or waits."""

import contextlib
import os
import secrets
import stat

LARGEST = 256 << 20  # bytes; a checkpoint has 16 per item, 32 per item with columns
LONGEST_LINE = 4 << 20
AS_IT_IS = os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def folder_within(folder, name):
    """(descriptor of the name's folder, the name's last part). Only `folder` itself may be a link. Errors: OSError."""
    *parts, last = [part for part in os.fspath(name).split("/") if part not in ("", ".")]
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | AS_IT_IS, dir_fd=inside)
            os.close(inside)
            inside = below
        yield inside, last
    finally:
        os.close(inside)


def read(folder, name, largest=LARGEST):
    """The bytes of an ordinary file. Errors: OSError, also for another kind of file or a larger one."""
    with opened(folder, name) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(f"'{name}' is larger than {largest} bytes")
    return data


def read_line(folder, name, longest=LONGEST_LINE):
    """The first line of an ordinary file of any size. Errors: OSError, also for another kind of file, a longer line."""
    with opened(folder, name) as file:
        line = file.readline(longest + 1)
    if len(line) > longest:
        raise OSError(f"the first line of '{name}' is longer than {longest} bytes")
    return line


@contextlib.contextmanager
def opened(folder, name):
    """An ordinary file for reading. Errors: OSError, also for another kind of file."""
    with folder_within(folder, name) as (inside, last):
        with open(os.open(last, os.O_RDONLY | os.O_NONBLOCK | AS_IT_IS, dir_fd=inside), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(f"'{name}' is not an ordinary file")
            yield file


def write(folder, name, data):
    """Replaces the name's entry by a complete file. Errors: OSError."""
    with folder_within(folder, name) as (inside, last):
        partial = f".offramp-{secrets.token_hex(8)}.part"
        try:
            with open(
                os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_IT_IS, 0o644, dir_fd=inside), "wb"
            ) as file:
                file.write(data)
            os.replace(partial, last, src_dir_fd=inside, dst_dir_fd=inside)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=inside)
            raise


def holds(folder, name):
    """Whether the name is an ordinary file."""
    try:
        with folder_within(folder, name) as (inside, last):
            return stat.S_ISREG(os.stat(last, dir_fd=inside, follow_symlinks=False).st_mode)
    except OSError:
        return False

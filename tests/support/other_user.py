"""Runs Python code as another user of this machine. Needs root."""

import os
import subprocess

NOBODY = 65534  # exists on every Debian
# The system's Python, which every user may run, because the tests' Python may be in a home folder.
PYTHON = "/usr/bin/python3"
STRANGER = 65533  # a uid without a user, which is enough to act


def can_become_others():
    return os.geteuid() == 0 and os.path.exists(PYTHON)


def as_user(uid, code, *words, groups=(), environment=None):
    """The lines that the code prints, failures included. The test fails if it cannot start."""
    done = subprocess.run(
        [PYTHON, "-c", code, *map(str, words)],
        user=uid,
        group=uid,
        extra_groups=list(groups),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"code of user {uid} failed:\n{done.stderr}")
    return done.stdout.splitlines()


# Tries each argument ACTION=PATH, and prints ACTION=PATH with "allowed" or the error's name.
TRY = """
import errno, mmap, os, socket, sys
def read(path): os.close(os.open(path, os.O_RDONLY))
def write(path): os.close(os.open(path, os.O_RDWR))
def truncate(path): os.truncate(path, 0)
def unlink(path): os.unlink(path)
def rename(path): os.rename(path, path + ".stolen")
def chmod(path): os.chmod(path, 0o777)
def connect(path):
    s = socket.socket(socket.AF_UNIX); s.connect(path)
def create(path): os.close(os.open(path + ".planted", os.O_CREAT | os.O_RDWR))
def kill(pid): os.kill(int(pid), 9)
def map_for_writing(path):
    fd = os.open(path, os.O_RDONLY)
    if os.fstat(fd).st_size == 0: return write(path)    # nothing to map
    mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
def open_again_for_writing(path):
    fd = os.open(path, os.O_RDONLY)
    os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
for word in sys.argv[1:]:
    action, _, path = word.partition("=")
    try:
        globals()[action](path)
        print(word, "allowed")
    except OSError as problem:
        print(word, errno.errorcode[problem.errno])
"""


def attempts(uid, words, groups=()):
    """{word: "allowed" or the error's name}"""
    return dict(line.rsplit(" ", 1) for line in as_user(uid, TRY, *words, groups=groups))

"""A small file system that a test can fill."""

import contextlib
import subprocess


@contextlib.contextmanager
def small_disk(test, folder, options):
    """
    Mounts a tmpfs at `folder` during the context; skips `test` if that is impossible. `options` are tmpfs's, such as
    "size=3m".
    """
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        test.skipTest(f"cannot mount a small file system here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)

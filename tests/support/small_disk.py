"""A small file system that a test can fill."""

import contextlib
import subprocess


@contextlib.contextmanager
def small_disk(test, folder, options):
    """Mounted at `folder` while the context lasts; `test` is skipped where nothing can be mounted. `options` are tmpfs's: "size=3m"."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        test.skipTest(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)

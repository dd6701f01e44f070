"""
Makes packages of a build, and their checksums: `packager SOURCES BUILD INTO KIND...`, with the kinds wheel, sdist and
deb. Runs in the set-up's Python, which has scikit-build-core and auditwheel.
"""

import os
import pathlib
import sys

# Run as a folder: imports the package from its parent, not from the folder itself.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from packager import packages  # noqa: E402

if __name__ == "__main__":
    sources, build, into = (pathlib.Path(word).absolute() for word in sys.argv[1:4])
    try:
        packages.make(sources, build, into, sys.argv[4:])
    except packages.CannotBuild as problem:
        print(f"packager: {problem}", file=sys.stderr)
        sys.exit(71)

"""The version of everything: CMake, packages and the launcher read it here."""

__version__ = "0.1.0"

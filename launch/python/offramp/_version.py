"""The version of the package, which is the project's."""

__version__ = "0.1.0"

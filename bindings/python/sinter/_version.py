"""The package's version; equal to the library's."""

__version__ = "0.1.0"

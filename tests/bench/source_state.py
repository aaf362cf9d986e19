"""What a results file says of the version that it was made of."""

import re


def source_state(build_info):
    """Commit, and whether the tree was modified, of the library that `sinter.build_info` describes."""
    found = re.search(r"commit ([0-9a-f]+)( dirty)?", build_info)
    return {"commit": found[1] if found else "unknown", "dirty": bool(found and found[2])}


def of_library():
    """The same of the library that the package `sinter` opens; unknown where the package is missing."""
    try:
        import sinter
    except ImportError:
        return source_state("")
    return source_state(sinter.build_info())

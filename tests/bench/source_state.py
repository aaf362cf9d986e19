"""What a results file says of the version that it was made of."""

import os
import re
import subprocess


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


def of_build(root):
    """The state of the library that `sinter` opens; if it is missing or does not say, of the checkout."""
    told = of_library()
    return of_tree(root) if told["commit"] == "unknown" else told


def of_tree(root):
    """The same of a checkout, or of a folder that `./dev bundle` made."""
    try:
        with open(os.path.join(root, "COMMIT"), encoding="utf-8") as file:
            commit, state = file.read().split()[:2]
        return {"commit": commit, "dirty": state != "clean"}
    except (OSError, ValueError):
        pass

    def git(*arguments):
        return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False).stdout.strip()

    return {"commit": git("rev-parse", "HEAD") or "unknown", "dirty": bool(git("status", "--porcelain"))}

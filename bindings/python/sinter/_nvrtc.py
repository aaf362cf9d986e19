"""Finds the run-time compiler that comes with torch or with NVIDIA's own wheels.

They install libnvrtc inside site-packages, where the loader does not look. Nothing is imported or opened here.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
from typing import List, Optional, Tuple


def _folders() -> List[str]:
    """Folders of the namespace package `nvidia`."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or []) if spec else []


def _version(path: str) -> Tuple[int, ...]:
    """Of libnvrtc.so.13 or libnvrtc.so.12.8: its numbers; () for anything else, such as libnvrtc.alt.so.13."""
    match = re.fullmatch(r"libnvrtc\.so((?:\.\d+)+)", os.path.basename(path))
    return tuple(int(part) for part in match[1].split(".")[1:]) if match else ()


def find_nvrtc() -> Optional[str]:
    """The newest libnvrtc of NVIDIA's wheels: ``nvidia/cu13/lib`` or ``nvidia/cuda_nvrtc/lib``; None without one.

    SINTER_NVRTC wins: with it the answer is None, and the library reads the variable itself.
    """
    if os.environ.get("SINTER_NVRTC"):
        return None
    files = [
        path for folder in _folders() for path in glob.glob(os.path.join(glob.escape(folder), "*", "lib", "libnvrtc.so.*"))
    ]
    usable = [path for path in files if _version(path) >= (12,)]
    return max(usable, key=_version) if usable else None

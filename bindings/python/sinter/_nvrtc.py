"""Finds the newest run-time compiler in torch's and NVIDIA's own wheels, and on the system.

Wheels install libnvrtc inside site-packages, where the loader does not look. torch for CUDA 12.4 to 12.8 brings an NVRTC
that is too old for products of 16-bit elements, so a newer one on the system wins. Nothing is imported or opened here.
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


def _system_folders() -> List[str]:
    """Folders where toolkits and distributions' packages put libraries; folders of LD_LIBRARY_PATH come first."""
    named = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    toolkits = glob.glob("/usr/local/cuda*/lib64")
    return named + sorted(toolkits) + glob.glob("/usr/lib/*-linux-gnu") + ["/usr/lib64"]


def _version(path: str) -> Tuple[int, int]:
    """The version of a file. For libnvrtc.so.12: (12, 8) with libnvrtc-builtins.so.12.8 in its folder, (12, -1) without. (0, 0) for others."""
    match = re.fullmatch(r"libnvrtc\.so\.(\d+)", os.path.basename(path))
    if match is None:
        return (0, 0)
    beside = os.path.join(glob.escape(os.path.dirname(os.path.realpath(path))), f"libnvrtc-builtins.so.{match[1]}.*")
    minors = [name.rsplit(".", 1)[1] for name in glob.glob(beside)]
    return (int(match[1]), max((int(minor) for minor in minors if minor.isdigit()), default=-1))


def find_nvrtc() -> Optional[str]:
    """The newest libnvrtc of wheels (``nvidia/cu13/lib``, ``nvidia/cuda_nvrtc/lib``) and of the system; None without one.

    SINTER_NVRTC wins: with it the answer is None, and the library reads the variable itself.
    """
    if os.environ.get("SINTER_NVRTC"):
        return None
    wheels = [path for folder in _folders() for path in glob.glob(os.path.join(glob.escape(folder), "*", "lib"))]
    files = [
        path for folder in wheels + _system_folders() for path in glob.glob(os.path.join(glob.escape(folder), "libnvrtc.so.*"))
    ]
    usable = [path for path in files if _version(path) >= (12, -1)]
    return max(usable, key=_version) if usable else None  # among equal ones the first: a wheel's

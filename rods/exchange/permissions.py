"""Who may read a run: one mode and one group for all that is in it, whoever writes it.

The run's own folder carries both. Each process of the run takes its umask from there, so that files which torch,
W&B, submitit or a shell redirection make are as closed as ours; the group is handed down by the setgid bit.
"""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

from rods.errors import RodsError

_ALL = 0o777


class PermissionsError(RodsError):
    """A group or a mode that this user cannot give."""


def umask(mode: str) -> int:
    """The umask under which new folders get at most `mode` (octal), and files the same without x."""
    return _ALL & ~int(mode, 8)


def adopt(mode: str) -> None:
    """Set this process's umask for `mode` (octal)."""
    os.umask(umask(mode))


def adopt_from(folder: Path) -> None:
    """`adopt` what `folder` has: for a process that joins a run."""
    os.umask(_ALL & ~stat.S_IMODE(folder.stat().st_mode))


def group_id(name: str) -> int | None:
    """The id of group `name`; None for "", the user's own.

    Raises:
        PermissionsError: there is no such group, or this user is not in it.
    """
    if not name:
        return None
    try:
        number = grp.getgrnam(name).gr_gid
    except KeyError:
        raise PermissionsError(
            f"exchange.group = {name}: expected a Unix group, found none of that name here. {_yours()}"
        ) from None
    if os.geteuid() and number not in {os.getegid(), *os.getgroups()}:
        raise PermissionsError(
            f"exchange.group = {name}: expected a group that you are in, found that you are not. {_yours()}"
        )
    return number


def share(folder: Path, mode: str, group: int | None) -> None:
    """Give the new `folder` its mode and group; with a group, all that is made below inherits it (setgid)."""
    bits = int(mode, 8)
    if group is not None:
        os.chown(folder, -1, group)
        bits |= stat.S_ISGID
    folder.chmod(bits)


def settle(folder: Path) -> None:
    """Give what was copied into `folder`, with permissions of its own, those of the folder above."""
    mode = stat.S_IMODE(folder.parent.stat().st_mode)
    for parent, _, names in os.walk(folder):
        os.chmod(parent, mode)
        for name in names:
            os.chmod(os.path.join(parent, name), mode & 0o666)


def _yours() -> str:
    names = sorted({_name(number) for number in {os.getegid(), *os.getgroups()}})
    return f"Yours are: {', '.join(names)}. Choose one of them or leave exchange.group empty."


def _name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)

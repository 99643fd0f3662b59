"""Which study pages hold a run: noted beside the run's own report, so that it can lead there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from rods.errors import RodsError
from rods.exchange.atomic import CorruptFileError, make_dirs, read_json, write_json

_NOTE = "studies.json"
BROWSER = "trajectories.html"
_BESIDE = {"study.html": "the study of this run", BROWSER: "its trajectories, one by one"}


class LinksError(RodsError):
    """A note of study pages that holds something else."""


@dataclass(frozen=True)
class Link:
    """A page that holds the run.

    Attributes:
        href: relative to the run's report, so that runs and studies can be moved together.
    """

    title: str
    href: str


def note(report: Path, title: str, page: Path) -> None:
    """Note in the folder `report` that `page` holds its run.

    Raises:
        LinksError: what was noted before is damaged.
    """
    make_dirs(report)
    href = os.path.relpath(page.resolve(), report.resolve())
    write_json(report / _NOTE, _read(report) | {href: title})


def found(report: Path) -> list[Link]:
    """The pages beside the report, then those that were noted; only pages that are there.

    Raises:
        LinksError: what was noted is damaged.
    """
    noted = {href: f"{title}: several runs side by side" for href, title in _read(report).items()}
    return [Link(title, href) for href, title in (_BESIDE | noted).items() if (report / href).is_file()]


def _read(report: Path) -> dict[str, str]:
    file = report / _NOTE
    try:
        return TypeAdapter(dict[str, str]).validate_python(read_json(file))
    except FileNotFoundError:
        return {}
    except (ValidationError, CorruptFileError) as error:
        raise LinksError(
            f"{file}: expected the study pages that hold this run, found something else; remove it"
        ) from error

"""What a task is and where tasks come from."""

from __future__ import annotations

from rods.config import TasksConfig
from rods.registry import Registry
from rods.tasks.taskset import TaskSet

SOURCES = Registry(
    "task source",
    {
        "bfcl": "rods.tasks.bfcl:load",
        "file": "rods.tasks.file:load",
        "scripted": "rods.tasks.scripted:load",
    },
)


def load(config: TasksConfig) -> TaskSet:
    """The seed tasks that the configuration names.

    Raises:
        UnknownNameError: no such source.
        BfclMissingError: bfcl-eval is not installed.
        TaskCountError: more tasks were asked for than there are.
        TaskFileError: a task file is missing, or holds something else.
    """
    tasks: TaskSet = SOURCES.get(config.source)(config)
    return tasks

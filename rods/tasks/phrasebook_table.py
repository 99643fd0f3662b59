"""The table of operations: the calls of one user turn, how people ask for them, what "it" means afterwards.

Data only. A call pattern is written `function key=value …`, calls separated by `;`; `$name` is a variable
of `scripted_slots`. Templates name the same variables. The wording is what the tiny policy was trained
on: changing it here takes a new warm start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KEEP = "(keep)"
FORGET = "(forget)"


@dataclass(frozen=True)
class Operation:
    """One thing a user can ask in one turn.

    Attributes:
        name: its key in `OPERATIONS`.
        pattern: calls in order: function name and arguments, whose values are `$variable` or literal text.
        leaves: the variable that "it" means afterwards, or KEEP (as before) or FORGET (nothing).
        templates: sentences with `{variable}` where values go.
    """

    name: str
    pattern: tuple[tuple[str, Mapping[str, str]], ...]
    leaves: str
    templates: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables of the pattern in order of appearance, each once."""
        values = (value for _, arguments in self.pattern for value in arguments.values())
        return tuple(dict.fromkeys(value[1:] for value in values if value.startswith("$")))

    @property
    def about_file(self) -> bool:
        """Whether the request is about a file that exists, so that a pronoun may stand for `file`."""
        return "file" in self.variables


def _operation(name: str, calls: str, leaves: str, *templates: str) -> Operation:
    return Operation(name, tuple(_call(text) for text in calls.split("; ")), leaves, templates)


def _call(text: str) -> tuple[str, dict[str, str]]:
    function, *arguments = text.split(" ")
    return function, dict(argument.split("=", 1) for argument in arguments)


_TABLE = (
    _operation(
        "touch",
        "touch file_name=$new",
        "new",
        "Create a new file called {new}.",
        "Please add an empty file {new}.",
        "I need a file named {new}.",
        "Make {new} as an empty file.",
    ),
    _operation(
        "mkdir",
        "mkdir dir_name=$new_folder",
        KEEP,
        "Create a directory {new_folder}.",
        "Make a new folder called {new_folder}.",
        "I need a folder named {new_folder} here.",
        "Add the folder {new_folder}.",
    ),
    _operation(
        "rename",
        "mv source=$file destination=$new",
        "new",
        "Rename {file} to {new}.",
        "Change the name of {file} to {new}.",
        "Give {file} the new name {new}.",
        "{new} is a better name for {file}, so rename it.",
    ),
    _operation(
        "mv_into",
        "mv source=$file destination=$target",
        FORGET,
        "Move {file} into {target}.",
        "Put {file} in the folder {target}.",
        "{file} belongs in {target}, move it there.",
        "Transfer {file} to the directory {target}.",
    ),
    _operation(
        "cp_into",
        "cp source=$file destination=$target",
        "file",
        "Copy {file} into {target}.",
        "Place a copy of {file} in the folder {target}.",
        "Keep a copy of {file} inside {target}.",
        "In {target} I want a copy of {file}.",
    ),
    _operation(
        "cp_as",
        "cp source=$file destination=$new",
        "new",
        "Make a copy of {file} named {new}.",
        "Duplicate {file} as {new}.",
        "Copy {file} to {new}.",
        "I want {new} to be a copy of {file}.",
    ),
    _operation(
        "rm",
        "rm file_name=$file",
        FORGET,
        "Delete {file}.",
        "Remove {file}.",
        "Get rid of {file}.",
        "I do not need {file} any more, delete it.",
    ),
    _operation(
        "cat",
        "cat file_name=$file",
        "file",
        "Show me {file}.",
        "What is in {file}?",
        "Display the contents of {file}.",
        "Read {file}.",
    ),
    _operation(
        "sort",
        "sort file_name=$file",
        "file",
        "Sort {file}.",
        "Show the lines of {file} in order.",
        "Give me {file} in sorted order.",
        "Arrange the lines of {file} alphabetically.",
    ),
    _operation(
        "wc",
        "wc file_name=$file mode=$mode",
        "file",
        "How many {mode} are in {file}?",
        "Count the {mode} in {file}.",
        "Tell me the number of {mode} in {file}.",
        "{file}: how many {mode} does it have?",
    ),
    _operation(
        "grep",
        "grep file_name=$file pattern=$word",
        "file",
        "Find the lines with '{word}' in {file}.",
        "Search {file} for '{word}'.",
        "Which lines of {file} mention '{word}'?",
        "Look for '{word}' inside {file}.",
    ),
    _operation(
        "tail",
        "tail file_name=$file lines=$lines",
        "file",
        "Show the last {lines} lines of {file}.",
        "Print the final {lines} lines in {file}.",
        "I want the last {lines} lines of {file}.",
    ),
    _operation(
        "diff",
        "diff file_name1=$file file_name2=$other",
        FORGET,
        "Compare {file} and {other}.",
        "What differs between {file} and {other}?",
        "Show the differences of {file} and {other}.",
        "Is {file} the same as {other}? Compare them.",
    ),
    _operation(
        "find",
        "find path=. name=$name",
        KEEP,
        "Find everything with '{name}' in its name.",
        "Locate the items named '{name}'.",
        "Where are the items called '{name}'?",
        "Search all folders for the name '{name}'.",
    ),
    _operation(
        "ls",
        "ls",
        KEEP,
        "List the files here.",
        "What is in this folder?",
        "Show the contents of the current directory.",
        "Which files are here?",
    ),
    _operation(
        "cd",
        "cd folder=$folder",
        FORGET,
        "Go to {folder}.",
        "Enter the folder {folder}.",
        "Change into {folder}.",
        "Open the directory {folder}.",
    ),
    _operation(
        "up",
        "cd folder=$parent",
        KEEP,
        "Go back up.",
        "Return to the parent folder.",
        "Leave this folder.",
        "Move up one level.",
    ),
    _operation(
        "pwd",
        "pwd",
        KEEP,
        "Where am I?",
        "Which directory is this?",
        "Print the working directory.",
        "Tell me the current path.",
    ),
    _operation(
        "echo",
        "echo content=$text file_name=$file",
        "file",
        "Write '{text}' to {file}.",
        "Put the text '{text}' in {file}.",
        "Set the content of {file} to '{text}'.",
        "{file} should say '{text}'.",
    ),
    _operation(
        "write_new",
        "touch file_name=$new; echo content=$text file_name=$new",
        "new",
        "Create {new} with the text '{text}'.",
        "Make a file {new} that says '{text}'.",
        "I need a new file {new} containing '{text}'.",
        "Write '{text}' to a new file {new}.",
    ),
    _operation(
        "mk_mv",
        "mkdir dir_name=$new_folder; mv source=$file destination=$new_folder",
        FORGET,
        "Move {file} into a new folder {new_folder}.",
        "Make a folder {new_folder} and put {file} in it.",
        "Create {new_folder} and move {file} there.",
        "{file} should go in a new directory {new_folder}.",
    ),
    _operation(
        "mk_cp",
        "mkdir dir_name=$new_folder; cp source=$file destination=$new_folder",
        "file",
        "Copy {file} into a new folder {new_folder}.",
        "Make a folder {new_folder} and keep a copy of {file} in it.",
        "Create {new_folder} and copy {file} there.",
        "A new directory {new_folder} should get a copy of {file}.",
    ),
    _operation(
        "cd_cat",
        "cd folder=$shelf; cat file_name=$inner",
        "inner",
        "Go to {shelf} and show {inner}.",
        "What does {inner} in {shelf} say?",
        "Enter {shelf} and read {inner}.",
        "Open the folder {shelf} and display {inner}.",
    ),
    _operation(
        "cd_sort",
        "cd folder=$shelf; sort file_name=$inner",
        "inner",
        "Go to {shelf} and sort {inner}.",
        "Enter {shelf} and put {inner} in order.",
        "Sort the file {inner} in {shelf}.",
    ),
    _operation(
        "cd_wc",
        "cd folder=$shelf; wc file_name=$inner mode=$mode",
        "inner",
        "Go to {shelf} and count the {mode} of {inner}.",
        "How many {mode} has {inner} in the folder {shelf}?",
        "Enter {shelf} and tell me the number of {mode} in {inner}.",
    ),
    _operation(
        "visit",
        "cd folder=$folder; touch file_name=$new_inner; cd folder=..",
        KEEP,
        "Go to {folder}, create {new_inner} and come back.",
        "Add an empty file {new_inner} inside {folder} and return here.",
        "In {folder} make {new_inner}, then go back up.",
    ),
    _operation(
        "touch3",
        "touch file_name=$new; touch file_name=$new2; touch file_name=$new3",
        FORGET,
        "Create the files {new}, {new2} and {new3}.",
        "I need three files: {new}, {new2} and {new3}.",
        "Add {new}, {new2} and {new3} as empty files.",
    ),
    _operation(
        "rm2",
        "rm file_name=$file; rm file_name=$other",
        FORGET,
        "Delete {file} and {other}.",
        "Remove both {file} and {other}.",
        "Get rid of {file} and also {other}.",
    ),
    _operation(
        "cat2",
        "cat file_name=$file; cat file_name=$other",
        "other",
        "Show me {file} and {other}.",
        "Read both {file} and {other}.",
        "Display {file}, then {other}.",
    ),
    _operation(
        "dep_count",
        "wc file_name=$file mode=$mode; echo content=$counted file_name=$other",
        "other",
        "Count the {mode} of {file} and write the number to {other}.",
        "Put the number of {mode} of {file} in {other}.",
        "{other} should hold how many {mode} {file} has.",
    ),
    _operation(
        "dep_copy",
        "cat file_name=$file; echo content=$copied file_name=$other",
        "other",
        "Read {file} and write its text to {other}.",
        "Put the text of {file} in {other} too.",
        "{other} should say the same as {file}, so read it and write it.",
    ),
    _operation(
        "dep_sort",
        "sort file_name=$file; echo content=$sorted file_name=$other",
        "other",
        "Sort {file} and write the result to {other}.",
        "Put the sorted lines of {file} in {other}.",
        "{other} should hold the sorted text of {file}.",
    ),
    _operation(
        "dep_new",
        "sort file_name=$file; touch file_name=$new; echo content=$sorted file_name=$new",
        "new",
        "Sort {file} and save the result as a new file {new}.",
        "Make a new file {new} with the sorted lines of {file}.",
    ),
)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _TABLE}

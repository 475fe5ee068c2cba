"""The man page kaput(1), made of the command tree when a wheel is built (distributions.py)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main

from kaput.cli.main import program
from kaput.cli.verbs import COMMON, OUTPUT
from kaput.core import VERSION

_STATUSES = (
    ("0", "held: everything promised was kept; success of any other verb"),
    ("1", "violated, or a check found something"),
    ("2", "a mistake in arguments, in a file, or in evidence"),
    ("3", "judged, but inconclusive"),
    ("4", "nothing to judge: the lab or the machine failed"),
    ("70", "a bug in kaput"),
    ("130", "interrupted"),
)
_FILES = (
    ("kaput.toml, pyproject.toml", "defaults of a project: docs/COMMAND_LINE.md"),
    ("~/.config/kaput/kaput.toml", "defaults of the user"),
)


def man_page() -> str:
    """The page in man(7)'s macros."""
    root: Any = typer.main.get_command(program())
    lines = [
        f'.TH KAPUT 1 "" "kaput {VERSION}"',
        ".SH NAME",
        "kaput \\- break a real Apache Kafka cluster on purpose, and account for every message",
        ".SH SYNOPSIS",
        ".B kaput",
        ".I VERB",
        "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]",
        ".SH OPTIONS OF EVERY VERB",
        *(line for each in (*COMMON, *OUTPUT) for line in _entry(each)),
        ".SH VERBS",
        *(line for path, command in _verbs(root, "kaput") for line in _verb(path, command)),
        ".SH EXIT STATUS",
        *(line for status, text in _STATUSES for line in (".TP", status, _roff(text))),
        ".SH FILES",
        *(line for name, text in _FILES for line in (".TP", _roff(name), _roff(text))),
    ]
    return "\n".join(lines) + "\n"


def _verbs(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from _verbs(each, f"{path} {name}")
        elif not each.hidden:
            yield f"{path} {name}", each


def _verb(path: str, command: Any) -> Iterator[str]:
    arguments = [each.metavar or each.name.upper() for each in command.params if _is_argument(each)]
    yield f".SS {_roff(' '.join((path, *arguments)))}"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield ".PP"
        yield from (_roff(line) for line in paragraph.splitlines())
    for each in command.params:
        if not each.hidden:
            yield from _entry(each)


def _entry(parameter: Any) -> Iterator[str]:
    names = (parameter.metavar or parameter.name.upper(),)
    if not _is_argument(parameter):
        value = "" if parameter.is_flag else f" {parameter.metavar or 'WORD'}"
        names = (*(name + value for name in parameter.opts), *parameter.secondary_opts)
    yield ".TP"
    yield f"\\fB{_roff(', '.join(names))}\\fR"
    yield _roff(parameter.help or "")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _roff(text: str) -> str:
    """Text of a line, with what troff would read as its own."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))

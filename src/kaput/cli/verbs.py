"""Common parts of all commands: the layout of help, and KEY=VALUE options."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

Runs = Annotated[Path, typer.Option(metavar="DIR", help="Directory with the run folders.")]


# In the order of `kaput --help`.
GROUPS = ("Experiments", "Clusters", "Clients and data", "Evidence")
_UNCUT = 1_000  # characters


class Verb(TyperCommand):
    """A command. In its help, examples keep their line breaks, and arguments show only their names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] RUN_DIR...`: brackets only around optional parts."""
        return ["[OPTIONS]", *(_usage(each) for each in self.get_params(ctx) if _is_argument(each))]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """The description, then the examples."""
        _write_help(self.help, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options."""
        records = [(each, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        shown = [(each, record) for each, record in records if record is not None]
        _write_section(formatter, "Arguments", [(_name(p), r[1]) for p, r in shown if _is_argument(p)])
        _write_section(formatter, "Options", [record for p, record in shown if not _is_argument(p)])


class VerbGroup(TyperGroup):
    """A group of commands, listed in sections."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """The description, then the examples."""
        _write_help(self.help, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each group."""
        verbs = [(name, command) for name, command in self.commands.items() if not command.hidden]
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS, "Commands")}
        for name, command in verbs:
            group = getattr(command, "rich_help_panel", None)
            summary = command.get_short_help_str(_UNCUT)  # wrapped instead, below longer names
            sections[group if group in GROUPS else "Commands"].append((name, summary))
        for title, rows in sections.items():
            _write_section(formatter, title, rows)


def group(help_text: str, *, no_args_is_help: bool = True) -> typer.Typer:
    """Creates a group of commands."""
    return typer.Typer(cls=VerbGroup, rich_markup_mode=None, no_args_is_help=no_args_is_help, help=help_text)


def pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """KEY=VALUE arguments as a dict. Raises UsageError."""
    from kaput.errors import UsageError

    found = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"{option} {text}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _usage(argument: Any) -> str:
    name = _name(argument) if argument.required else f"[{_name(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


def _write_section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _write_help(text: str | None, formatter: Any) -> None:
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    with formatter.indentation():
        for paragraph in paragraphs:
            formatter.write_paragraph()
            if paragraph.startswith("Example:"):
                for line in paragraph.splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
            else:
                formatter.write_text(paragraph)

"""Common parts of all commands: the layout of help, and renamed options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

Runs = Annotated[Path, typer.Option(metavar="DIR", help="Directory with the run folders.")]


class Renamed(NamedTuple):
    """A renamed option. `option`: its replacement; `words`: what to write instead."""

    option: str
    words: tuple[str, ...]


# Old names work for one release, in every command that has the option and does not use the old name itself.
RENAMED = {
    "--option": Renamed("--set", ("--set",)),
    "-o": Renamed("--set", ("--set",)),
    "--conf": Renamed("--set", ("--set",)),
    "--name": Renamed("--cluster", ("--cluster",)),
    "--despite-offline": Renamed("--allow-offline", ("--allow-offline",)),
    "--form": Renamed("--line-format", ("--line-format",)),
    "--no-ledger": Renamed("--ledger", ("--ledger", "none")),
    "--no-detach": Renamed("--detach", ()),
    "--no-watch": Renamed("--watch", ()),
}
# Renamed commands.
RENAMED_VERBS = {"cleanup": "undo"}
# In the order of `kaput --help`.
GROUPS = ("Experiments", "Clusters", "Clients and data", "Evidence")


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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses arguments as click does, after replacing old option names."""
        known = {name for each in self.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
        return super().parse_args(ctx, list(_with_current_names(args, known, ctx.allow_interspersed_args)))


class VerbGroup(TyperGroup):
    """A group of commands, listed in sections."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """The description, then the examples."""
        _write_help(self.help, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each group."""
        verbs = [(name, command) for name, command in self.commands.items() if not command.hidden]
        limit = formatter.width - 6 - max(len(name) for name, _ in verbs)
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS, "Commands")}
        for name, command in verbs:
            group = getattr(command, "rich_help_panel", None)
            sections[group if group in GROUPS else "Commands"].append(
                (name, command.get_short_help_str(limit))
            )
        for title, rows in sections.items():
            _write_section(formatter, title, rows)


def group(help_text: str, *, no_args_is_help: bool = True) -> typer.Typer:
    """Creates a group of commands."""
    return typer.Typer(cls=VerbGroup, rich_markup_mode=None, no_args_is_help=no_args_is_help, help=help_text)


def current_verb(name: str) -> str:
    """The command's name; for its name in the last release the new one, with a warning."""
    if (new := RENAMED_VERBS.get(name)) is None:
        return name
    sys.stderr.write(f"kaput: {name} is deprecated and will be removed in the next release; use {new}\n")
    return new


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


def _with_current_names(args: list[str], known: set[str], anywhere: bool) -> Iterable[str]:
    """The arguments with old option names replaced, with a warning for each. `anywhere`: options may follow
    arguments; otherwise those are for the program that the command runs.
    """
    for at, word in enumerate(args):
        if word == "--" or not (anywhere or at == 0):
            yield from args[at:]
            return
        old = _old_name(word)
        if old is None or old in known or RENAMED[old].option not in known:
            yield word
            continue
        words = RENAMED[old].words
        instead = " ".join(words) or "nothing: it is the default"
        sys.stderr.write(
            f"kaput: {old} is deprecated and will be removed in the next release; use {instead}\n"
        )
        value = word[len(old) :].removeprefix("=")
        yield from [*words, value] if value else words


def _old_name(word: str) -> str | None:
    """The old option in an argument: `--option`, `--option=K=V`, `-o`, `-oK=V`; or None."""
    if word.partition("=")[0] in RENAMED:
        return word.partition("=")[0]
    return word[:2] if word[:2] in RENAMED and not word.startswith("--") else None

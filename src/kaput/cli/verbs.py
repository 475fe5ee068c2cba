"""Common parts of all commands: the layout of help, --quiet and --verbose, and KEY=VALUE options."""

from __future__ import annotations

import inspect
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
import typer.main
from typer import Option
from typer.core import TyperCommand, TyperGroup

from kaput.errors import UsageError, needs_package
from kaput.printable import printable_lines
from kaput.scenario.nearest import nearest

Runs = Annotated[Path, Option(metavar="DIR", help="Directory with the run folders.")]


# In the order of `kaput --help`.
GROUPS = ("Experiments", "Clusters", "Clients and data", "Evidence")
# The verbs that `kaput --help` explains; of the others it shows the names, so that it fits on a screen.
MAIN = (
    "run", "demo", "scenarios", "search", "up", "status", "fault", "down", "watch", "doctor", "sequence",
    "keep", "analyze", "report",
)  # fmt: skip
# Sections of a verb's options, below those that say what it does; by the names of their parameters.
_SECTIONS = {
    "Cluster": {
        "brokers", "controllers", "racks", "mode", "kafka", "network", "security", "config", "kafka_home",
        "bootstrap_servers", "cluster", "command_config", "use_existing_topic", "on",
    },
    "Results": {
        "runs", "json", "output", "page", "columns", "reports", "baseline", "tolerance", "alerts",
        "dashboard", "metrics", "format", "format_",
    },
    "Common options": {"quiet", "verbose", "help"},
}  # fmt: skip
ALL = "kaput.all"  # in a context: all verbs are to be explained
_UNCUT = 1_000  # characters
_MOST = 3  # proposals
ALIKE = 0.75  # words less similar than this are not proposed: heal is no misspelled shell


class Verbosity:
    """How much the program writes to stderr. `errors`: stderr, while --quiet drops all else; `lines`: with
    --verbose progress is lines with times instead of a bar, and errors have their traceback.
    """

    errors: TextIO | None = None
    lines = False

    @classmethod
    def quieten(cls) -> None:
        """From now on only `write_error` reaches stderr."""
        if cls.errors is None:
            cls.errors, sys.stderr = sys.stderr, Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115

    @classmethod
    def reset(cls) -> None:
        """As at the start of the program."""
        if cls.errors is not None:
            sys.stderr.close()
            sys.stderr = cls.errors
        cls.errors, cls.lines = None, False


def note(text: str) -> None:
    """Writes a line to stderr as it is, but not with --quiet."""
    typer.echo(text, err=True)


def prefixed_note(text: str, stream: TextIO | None = None) -> None:
    """Writes `kaput: ` and the text to stderr, but not with --quiet."""
    (stream or sys.stderr).write(f"kaput: {printable_lines(text.rstrip())}\n")


def write_error(text: str) -> None:
    """The same, with --quiet too."""
    prefixed_note(text, Verbosity.errors)


def _quiet(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        Verbosity.quieten()


def _verbose(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        Verbosity.lines = True


def _common(
    quiet: Annotated[
        bool,
        Option("-q", "--quiet", callback=_quiet, expose_value=False, help="Print only results and errors."),
    ] = False,
    verbose: Annotated[
        bool,
        Option(
            "-v",
            "--verbose",
            callback=_verbose,
            expose_value=False,
            help="Print each step with its time, and errors in full.",
        ),
    ] = False,
) -> None:
    """Options of every verb, also before its name."""


class Output(StrEnum):
    """How a verb prints its result. `TABLE`: as text."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"


def _output(
    output: Annotated[
        Output, Option("-o", "--output", help="How to print the result; json is the same as --json.")
    ] = Output.TABLE,
) -> None:
    """The option of every verb whose result is one document."""


def options_in(function: Any) -> list[Any]:
    """The options that a function's parameters declare, as typer makes them."""
    made = typer.Typer(add_completion=False)
    made.command()(function)
    return list(typer.main.get_command(made).params)


COMMON, OUTPUT = options_in(_common), options_in(_output)
_JSON_LINES = ("watch", "search")  # verbs that print a line of JSON again and again


class Verb(TyperCommand):
    """A command. In its help, examples keep their line breaks, and arguments show only their names."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own parameters, those of every verb, and --help."""
        own = super().get_params(ctx)
        if self.context_settings.get("ignore_unknown_options"):  # of another program
            return own
        document = any(each.name == "json" for each in own) and self.name not in _JSON_LINES
        return [*own[:-1], *(OUTPUT if document else []), *COMMON, own[-1]]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses them. Raises click's UsageError, also for arguments that are too many."""
        own, ctx.allow_extra_args = ctx.allow_extra_args, True
        left: list[str] = super().parse_args(ctx, args)
        ctx.allow_extra_args = own
        if left and not own and not ctx.resilient_parsing:
            cluster = len(left) == 1 and any(each.name == "cluster" for each in self.params)
            meant = f" (did you mean --cluster {left[0]}?)" if cluster else ""
            ctx.fail(f"unexpected argument {' '.join(left)}{meant}")
        return left

    def invoke(self, ctx: Any) -> Any:
        """Runs it. Raises UsageError if only kaput-lab is installed, and that lacks what it needs."""
        try:
            return self._printed(ctx)
        except ModuleNotFoundError as error:
            opening = " --dashboard" if ctx.params.get("dashboard") else ""
            raise needs_package(f"{command_of(ctx)}{opening}", error) from error

    def _printed(self, ctx: Any) -> Any:
        """Runs it. --output json is --json; other forms are made from that document."""
        _refuse_two_forms(ctx)
        form = ctx.params.pop("output", Output.TABLE)
        if form == Output.TABLE:
            return super().invoke(ctx)
        ctx.params["json"] = True
        if form == Output.JSON:
            return super().invoke(ctx)
        from kaput.cli.output import printed_as

        with printed_as(form, lines=ctx.params.get("watch", False), verb=command_of(ctx)):
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] RUN_DIR...`: brackets only around optional parts."""
        return ["[OPTIONS]", *(_usage(each) for each in self.get_params(ctx) if _is_argument(each))]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        _write_help(self.help, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records = [(each, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        shown = [(each, record) for each, record in records if record is not None]
        _write_section(formatter, "Arguments", [(_name(p), r[1]) for p, r in shown if _is_argument(p)])
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *_SECTIONS)}
        for each, record in shown:
            if not _is_argument(each):
                title = next((title for title, names in _SECTIONS.items() if each.name in names), "Options")
                sections[title].append(record)
        for title, rows in sections.items():
            _write_section(formatter, title, rows)


def _refuse_two_forms(ctx: Any) -> None:
    """Raises click's UsageError if -o, --format and --json on the command line differ."""
    forms: dict[str, str] = {}
    for each in ctx.command.get_params(ctx):
        source = ctx.get_parameter_source(each.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if each.name in ("output", "format", "format_"):
            word = str(ctx.params[each.name])
            forms[f"{each.opts[0]} {word}"] = "text" if word == Output.TABLE else word
        elif each.name == "json":
            forms["--json"] = "json"
    if len(set(forms.values())) > 1:
        ctx.fail(f"{' and '.join(forms)} are different forms of the result: give one of them")


class VerbGroup(TyperGroup):
    """A group of commands, listed in sections."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own parameters, those of every verb, and --help."""
        own = super().get_params(ctx)
        return [*own[:-1], *COMMON, own[-1]]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses them; `help VERB` is `VERB --help`."""
        if args[:1] == ["help"]:
            words = [word for word in args[1:] if word != "help"]
            args = words if ctx.resilient_parsing else [*words, "--help"]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names. Raises click's UsageError with a word alike."""
        word = args[0]
        if word in self.commands or word.startswith("-"):
            return super().resolve_command(ctx, args)
        path = command_of(ctx)
        groups = [name for name, command in self.commands.items() if word in getattr(command, "commands", ())]
        verbs = [f"{path} {name} {word}" for name in groups[:_MOST]] or [
            f"{path} {name}" for name in nearest(word, self.commands, cutoff=ALIKE)
        ]
        return ctx.fail(f"no verb {word!r}" + (f" (did you mean {' or '.join(verbs)}?)" if verbs else ""))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["VERB ..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        # Whoever wants the completion script itself finds it in docs/COMMAND_LINE.md.
        records = [
            each.get_help_record(ctx) for each in self.get_params(ctx) if each.name != "show_completion"
        ]
        _write_section(formatter, "Options", [record for record in records if record is not None])

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        _write_help(self.help, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each group. Of the program itself: the main verbs, unless all are wanted."""
        verbs = [(name, command) for name, command in self.commands.items() if not command.hidden]
        brief = ctx.parent is None and not ctx.meta.get(ALL)
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS, "Verbs")}
        more: dict[str, list[str]] = {title: [] for title in sections}
        for name, command in verbs:
            group = getattr(command, "rich_help_panel", None)
            title = group if group in GROUPS else "Verbs"
            if brief and name not in MAIN:
                more[title].append(name)
            else:
                # Wrapped instead, below longer names.
                sections[title].append((name, command.get_short_help_str(_UNCUT)))
        for title, rows in sections.items():
            also = [("also", ", ".join(more[title]))] if more[title] else []
            _write_section(formatter, title, [*rows, *also])


def print_json(document: object, indent: int | None = None) -> None:
    """Prints a document on stdout."""
    typer.echo(json.dumps(document, indent=indent, ensure_ascii=False))


class ListingGroup(VerbGroup):
    """A group whose verb is `list` where none is given: `kaput scenarios -o json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses them, with that verb."""
        no_verb = not args or args[0].startswith("-")
        if no_verb and not ({*self.commands, "-h", "--help"} & set(args)) and not ctx.resilient_parsing:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group(help_text: str, *, lists: bool = False) -> typer.Typer:
    """Creates a group of commands. `lists`: its verb is `list` where none is given."""
    kind = ListingGroup if lists else VerbGroup
    return typer.Typer(cls=kind, rich_markup_mode=None, no_args_is_help=True, help=help_text)


def command_of(ctx: Any) -> str:
    """`kaput fault inject`, also if it was started as `python -m kaput`."""
    return f"kaput{ctx.command_path.removeprefix(ctx.find_root().command_path)}"


def pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """KEY=VALUE arguments as a dict. Raises UsageError."""
    values = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"{option} {text}: write KEY=VALUE")
        values[key.strip()] = value.strip()
    return values


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

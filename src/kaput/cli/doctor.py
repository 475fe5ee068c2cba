"""`kaput doctor`: finds settings and states of a cluster that risk lost messages or outages.

--fix shows, confirms and applies each fix, then lists the remaining findings and why. --prove reproduces
findings on a scratch cluster, without and with the fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from kaput.cli.options import (
    ClusterName,
    CommandConfig,
    Servers,
    TableOptions,
    config_of,
    confirmed,
    servers_of,
)
from kaput.cli.reassign import DEFAULT_IN_FLIGHT, DEFAULT_THROTTLE, Reassignment, rate_of
from kaput.cli.results import Series, show_series
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS, plural
from kaput.errors import LabError, UsageError
from kaput.printable import printable
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from rich.text import Text

    from kaput.cli.scenario_choice import Choice
    from kaput.cluster.admin.reassignments import ReassignmentClient
    from kaput.operate.doctor.diagnosis import Finding
    from kaput.operate.doctor.experiments import Pair
    from kaput.operate.doctor.fixing import Fix
    from kaput.operate.doctor.snapshot import ClusterSnapshot, InterruptedReassignment


_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold"}
DoctorFormat = Literal["text", "json", "sarif"]
Severity = Literal["critical", "warning", "info", "never"]
CheckIds = Annotated[
    list[str] | None, Argument(metavar="ID", help="With --prove: only these checks, for example KP003.")
]
DryRun = Annotated[bool, Option("--dry-run", help="With --fix: show the fixes and change nothing.")]
Prove = Annotated[
    bool, Option("--prove", help="Reproduce each finding on a scratch cluster, with and without the fix.")
]


def doctor_command(
    check: CheckIds = None,
    *,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    client_config: Annotated[
        Path | None, Option(metavar="FILE", help="Also check this producer's properties file.")
    ] = None,
    ignore: Annotated[
        Path | None, Option(metavar="FILE", help="Leave out the findings in this file (from --json).")
    ] = None,
    fail_on: Annotated[
        Severity, Option(help="Exit status 1 for findings of this severity or worse.")
    ] = "warning",
    format_: Annotated[DoctorFormat, Option("--format", help="Output format.")] = "text",
    json: Annotated[bool, Option("--json", help="The same as --format json.")] = False,
    fix: Annotated[bool, Option("--fix", help="Apply the fixes; shows each and asks first.")] = False,
    yes: Annotated[bool, Option("--yes", help="With --fix: do not ask for confirmation.")] = False,
    dry_run: DryRun = False,
    prove: Prove = False,
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Check a cluster, its topics and groups, and report risks.

    Changes nothing without --fix, and with --fix only what you confirm.

    With --prove, --fail-on does not count: exit status 0 if each finding is confirmed, else 3.

    Example: kaput doctor --bootstrap-servers broker1:9092 --fail-on critical

    Example: kaput doctor --prove KP002
    """
    _refuse(check, prove, fix, dry_run)
    from kaput.operate.doctor.diagnosis import Address, diagnose, read_baseline
    from kaput.operate.doctor.snapshot import read_snapshot
    from kaput.operate.registry import running

    known = set() if ignore is None else read_baseline(ignore)
    if prove and check and bootstrap_servers is None and cluster is None and not running():
        return prove_findings(check, None, [], runs, json)  # with the experiment's own settings
    servers = servers_of(bootstrap_servers, cluster)
    address = Address(bootstrap_servers, command_config, cluster)
    command_config = config_of(bootstrap_servers, cluster, command_config)

    def look() -> tuple[ClusterSnapshot, list[Finding]]:
        seen = read_snapshot(servers, command_config, client_config)
        return seen, diagnose(seen, known, own=bootstrap_servers is None, address=address)

    snapshot, findings = look()
    if prove:
        return prove_findings(check or [], snapshot, findings, runs, json)
    shown, fixed = "json" if json else format_, None
    if fix:
        quiet = shown != "text"
        if not quiet:
            _show(shown, findings, snapshot.unknown)
        fixed, fixing = list[str](), _Fixing(servers, command_config, yes, dry_run, quiet)
        if snapshot.interrupted is not None:
            fixed = fixing.resume(snapshot.interrupted)
            snapshot, findings = look()
        fixed += fixing.apply(snapshot, findings)
        if dry_run and not quiet:
            return _status(findings, fail_on)
        snapshot, findings = look()
        typer.echo("\nafter the fixes:", err=quiet)
    _show(shown, findings, snapshot.unknown, fixed)
    return _status(findings, fail_on)


def _refuse(check: Sequence[str] | None, prove: bool, fix: bool, dry_run: bool) -> None:
    """Raises BadParameter for incompatible options."""
    if check and not prove:
        raise typer.BadParameter("check IDs require --prove")
    if prove and fix:
        raise typer.BadParameter("--prove and --fix cannot be combined")
    if dry_run and not fix:
        raise typer.BadParameter("--dry-run requires --fix")


def _show(
    shown: DoctorFormat,
    findings: Sequence[Finding],
    unknown: Sequence[str],
    fixed: Sequence[str] | None = None,
) -> None:
    from kaput.console import Console
    from kaput.operate.doctor.diagnosis import as_json, as_sarif

    if shown == "json":
        typer.echo(as_json(findings, unknown, fixed))
    elif shown == "sarif":
        typer.echo(as_sarif(findings))
    else:
        Console(soft_wrap=True).print(text_of(findings, unknown), end="")


def _alike(remedies: Sequence[str]) -> list[list[str]]:
    """Remedies by kind: those that differ only in their command's options."""
    kinds: dict[str, list[str]] = {}
    for remedy in remedies:
        kinds.setdefault(remedy.partition(" --")[0], []).append(remedy)
    return list(kinds.values())


def text_of(findings: Sequence[Finding], unknown: Sequence[str]) -> Text:
    """The text of `findings`, which are in display order: grouped by check."""
    from itertools import groupby

    from rich.text import Text

    text = Text()
    for _, group in groupby(findings, key=lambda finding: finding.id):
        same = list(group)
        first = same[0]
        text.append(f"{first.id} {first.severity}: {first.title}\n", style=_STYLES[first.severity])
        for each in same:
            text.append(f"  {printable(each.resource)}: {printable(each.evidence)}\n")
        for alike in _alike(list(dict.fromkeys(each.remedy for each in same))):
            more = f" (and {len(alike) - 1} like it)" if len(alike) > 1 else ""
            text.append(f"  remedy: {printable(alike[0])}{more}\n", style="dim")
    for what in unknown:
        text.append(f"not checked: {printable(what)}\n")
    counts = [
        plural(count, severity, "warnings" if severity == "warning" else severity)
        for severity in _STYLES
        if (count := sum(finding.severity == severity for finding in findings))
    ]
    text.append(f"{', '.join(counts) or 'nothing found'}\n", style="bold")
    return text


def _status(findings: list[Finding], fail_on: Severity) -> int:
    """The exit status: 1 if any finding is at least that severe."""
    from kaput.operate.doctor.diagnosis import at_or_above

    return int(fail_on != "never" and at_or_above(findings, fail_on))


@dataclass(frozen=True)
class _Fixing:
    """Applies fixes. `yes`: without asking; `dry_run`: none; `quiet`: no output on stdout. Its methods raise
    UsageError and LabError; fixes that were already applied stay applied.
    """

    servers: str
    command_config: Path | None
    yes: bool
    dry_run: bool
    quiet: bool

    def resume(self, interrupted: InterruptedReassignment) -> list[str]:
        """Finishes a reassignment; returns a sentence if it did."""
        typer.echo("\nfix KP023: resume the interrupted reassignment", err=self.quiet)
        if self.dry_run:
            return []
        with self._connected() as connection:
            done = self._work(connection).resume(None, False)
        return [f"the interrupted reassignment of {interrupted.partitions} partitions"] if done else []

    def apply(self, snapshot: ClusterSnapshot, findings: Sequence[Finding]) -> list[str]:
        """Returns a sentence for each fix that was applied."""
        from kaput.operate.doctor.fixing import remedies

        fixes = remedies(snapshot, findings)
        with self._connected() as connection:
            done = [each.title for each in fixes.fixes if self._applied(connection, each)]
        for finding, why in fixes.cannot:
            typer.echo(f"not fixed: {finding.id} {finding.resource}: {why}", err=self.quiet)
        return done

    def _applied(self, connection: ReassignmentClient, fix: Fix) -> bool:
        from kaput.operate.reassign.applying import elect_all

        typer.echo(f"\nfix {', '.join(fix.ids)}: {fix.title}", err=self.quiet)
        if fix.goal is None:
            _show_fix(fix, self.quiet)
            if self.dry_run or not confirmed("Set this?", self.yes):
                return False
            connection.configure("broker", fix.brokers)
            connection.configure("topic", fix.configs)
            return True
        work = self._work(connection)
        moves = work.plan(fix.goal, list(fix.topics))
        work.show(moves, None)
        if self.dry_run or not work.confirmed():
            return False
        if moves:
            work.apply(moves, rate_of(DEFAULT_THROTTLE), DEFAULT_IN_FLIGHT)
        elect_all(connection)
        return True

    def _connected(self) -> AbstractContextManager[ReassignmentClient]:
        from kaput.cluster.access import Access
        from kaput.cluster.admin.reassignments import reassignment_client

        return reassignment_client(self.servers, Access.of(self.command_config))

    def _work(self, connection: ReassignmentClient) -> Reassignment:
        from kaput.operate.reassign.journal import Folder

        return Reassignment(connection, connection.view(), Folder(), self.quiet, self.yes)


def _show_fix(fix: Fix, quiet: bool) -> None:
    every = [(f"broker {name}", config) for name, config in fix.brokers.items()]
    every += [(f"topic {name}", config) for name, config in fix.configs.items()]
    for name, config in every[:30]:
        for key, value in config.items():
            typer.echo(f"  {name}: {key}={value}" if value is not None else f"  {name}: no {key}", err=quiet)
    if len(every) > 30:
        typer.echo(f"  and {len(every) - 30:,} more", err=quiet)


NOT_SHOWN = 3


def prove_findings(
    ids: Sequence[str], snapshot: ClusterSnapshot | None, findings: Sequence[Finding], runs: Path, json: bool
) -> int:
    """Runs the experiments of these checks, or of all findings; returns the exit status.

    0: every experiment confirms its finding; 3: one does not, or there is none. Raises UsageError, LabError.
    """
    from kaput.cli.run_scenarios import run_all
    from kaput.cli.scenario_choice import Choice
    from kaput.operate.doctor.experiments import EXPERIMENTS, NO_EXPERIMENT, pair

    wanted = list(dict.fromkeys(ids or [finding.id for finding in findings]))
    _check(wanted)
    for number in wanted:
        if number in NO_EXPERIMENT:
            typer.echo(f"{number}: no experiment: {NO_EXPERIMENT[number]}", err=True)
    first = {finding.id: finding.resource for finding in reversed(findings)}
    pairs = [pair(number, snapshot, first.get(number)) for number in wanted if number in EXPERIMENTS]
    if not pairs:
        typer.echo("nothing to reproduce", err=True)
        return NOT_SHOWN
    choices: list[Choice] = []
    for each in pairs:
        of = f"with the settings of {each.resource}" if each.resource else "with its own settings"
        typer.echo(f"{each.id}: {each.without_fix.title} ({of})", err=True)
        choices += [
            Choice(f"{each.id}-as-it-is", each.without_fix, f"{each.id} as it is"),
            Choice(f"{each.id}-remedy", each.with_fix, f"{each.id} with the fix"),
        ]
    with run_all(choices, None, 1, runs) as series:
        # Ignores the exit status of the verdicts: here the comparison decides.
        with suppress(typer.Exit):
            show_series(series, json, as_list=True, printed=TableOptions(_columns(pairs)))
        return _conclude(pairs, series, json)


def _columns(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Of the table of the experiments: with every figure that the sentences below it quote."""
    quoted = (each.figure.column for each in pairs)
    return tuple(dict.fromkeys(("verdict", "sent", "acked", "lost", "standstill ms", *quoted)))


def _check(ids: Sequence[str]) -> None:
    from kaput.operate.doctor.checks import CHECKS

    known = [check.id for check in CHECKS]
    for number in ids:
        if number not in known:
            raise UsageError(f"no check {number}; {hint(number, known)}")


def _conclude(pairs: Sequence[Pair], series: Series, json: bool) -> int:
    """Prints a sentence for each pair. Raises LabError if one of its runs failed."""
    from kaput.operate.doctor.experiments import fix_helps
    from kaput.report.document import number

    by_name = {result.findings.run.scenario: result.findings for result in series.results}
    status = 0
    for each in pairs:
        bad, good = by_name.get(f"{each.id}-as-it-is"), by_name.get(f"{each.id}-remedy")
        if bad is None or good is None:
            raise LabError(f"{each.id}: the experiment failed, so nothing is confirmed")
        proven = fix_helps(each.figure, bad, good)
        result = "confirmed" if proven else "not reproduced this time"
        figures = f"{number(each.figure.of(bad))} as it is, {number(each.figure.of(good))} with the fix"
        typer.echo(f"{each.id} {result}: {each.figure.name}: {figures}", err=json)
        status = status if proven else NOT_SHOWN
    return status

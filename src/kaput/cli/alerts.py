"""`kaput alerts`: alert rules, their Prometheus version, and their scores (alerts_scores.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaput.cli.alerts_scores import RulesFile, rule_named, rules_of, score_command, tune_command
from kaput.cli.cluster_options import Json
from kaput.cli.verbs import Verb, group

if TYPE_CHECKING:
    from kaput.monitor.alerts.rules import AlertRule

app = group("Show, check, score and tune alert rules.\n\nExample: kaput alerts show > mine.yaml")


@app.command("list", cls=Verb)
def list_command(rules: RulesFile = None, json: Json = False) -> None:
    """List alert rules with their severity and condition.

    Example: kaput alerts list --rules mine.yaml
    """
    from kaput.monitor.alerts.rules import condition_words

    found = rules_of(rules)
    if json:
        _print_json([_document(rule) for rule in found])
        return
    width = max(len(rule.name) for rule in found)
    for rule in found:
        sys.stdout.write(f"{rule.name:{width}}  {rule.severity:6}  {condition_words(rule)}\n")


@app.command("show", cls=Verb)
def show_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="AlertRule to print (default: the whole file, for editing)."),
    ] = None,
    rules: RulesFile = None,
    json: Json = False,
) -> None:
    """Print the alert rules file, or one rule and the reason for it.

    Example: kaput alerts show low-send-rate
    """
    if name is not None:
        _show_rule(rule_named(rules_of(rules), name), json)
    elif json:
        _print_json([_document(rule) for rule in rules_of(rules)])
    else:
        sys.stdout.write(_text(rules))


@app.command("check", cls=Verb)
def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Alert rules file.")], json: Json = False
) -> None:
    """Check an alert rules file and list every mistake with its line.

    Exit status: 0 if the file is valid; 2 if not.

    Example: kaput alerts check mine.yaml
    """
    from kaput.core import plural

    found = rules_of(file)
    pages = sum(rule.severity == "page" for rule in found)
    if json:
        _print_json({"file": str(file), "rules": len(found.alert_rules), "pages": pages})
    else:
        sys.stdout.write(f"{file}: {plural(len(found.alert_rules), 'rule')}, {pages} with severity page\n")


@app.command("rules", cls=Verb)
def rules_command(
    rules: RulesFile = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print alerting rules for Prometheus 2.42 or newer.")
    ] = False,
    alertmanager: Annotated[
        bool, typer.Option("--alertmanager", help="Print inhibition rules for Alertmanager.")
    ] = False,
) -> None:
    """Print the rules in the format of Prometheus or Alertmanager.

    The rules use the metrics that kaput exposes.

    Example: kaput alerts rules --prometheus > kaput.rules.yml
    """
    from kaput.errors import UsageError
    from kaput.monitor.alerts.prometheus import alerting_rules, inhibit_rules

    if prometheus == alertmanager:
        raise UsageError("choose one: --prometheus or --alertmanager")
    found = rules_of(rules)
    sys.stdout.write(alerting_rules(found) if prometheus else inhibit_rules(found))


app.command("score", cls=Verb)(score_command)
app.command("tune", cls=Verb)(tune_command)


def _text(path: Path | None) -> str:
    from kaput.monitor.alerts.rules import builtin_text
    from kaput.scenario.source import read

    if path is None:
        return builtin_text()
    rules_of(path)
    return read(path)


def _show_rule(rule: AlertRule, json: bool) -> None:
    if json:
        _print_json(_document(rule))
        return
    from kaput.monitor.alerts.rules import condition_words

    sys.stdout.write(f"{rule.name} ({rule.severity}): {condition_words(rule)}\n{rule.why}\n")
    for inhibitor in rule.unless:
        equal = f" with the same {', '.join(inhibitor.equal)}" if inhibitor.equal else ""
        sys.stdout.write(f"Silent while {inhibitor.rule} fires{equal}.\n")


def _document(rule: AlertRule) -> dict[str, Any]:
    """A rule as in the file, without unset keys."""
    from kaput.monitor.alerts.rules import condition_words

    written: dict[str, Any] = rule.model_dump(by_alias=True, exclude_defaults=True)
    return {**written, "condition": condition_words(rule)}


def _print_json(document: Any) -> None:
    from json import dumps

    typer.echo(dumps(document, indent=2))

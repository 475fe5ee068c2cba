"""Reference pages from the code that they describe (docs/RUN_FOLDER.md and others), findings.schema.json, and
the examples of README.md, docs/OUTAGES.md and docs/TUTORIAL.md from recorded runs (examples.py). The tests in
docs/OTHER_LANGUAGES.md are those that tests/functional/test_other_languages.py runs.

    .venv/bin/python scripts/reference.py          writes them anew (make reference)

The pages are written by hand but for what is between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
tests/unit/test_reference.py says when they are out of date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pyarrow as pa
from pydantic import BaseModel, PlainSerializer, WithJsonSchema
from pydantic.fields import FieldInfo

from kaput.cluster.network.capability_checks import NEEDS
from kaput.evidence import findings_file
from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest
from kaput.evidence.schemas import TABLES
from kaput.faults.catalogue import descriptions, kernel_needs
from kaput.monitor.alerts.prometheus import alerting_rules
from kaput.monitor.alerts.rules import builtin
from kaput.monitor.grafana import dashboard_text
from kaput.monitor.signals import SIGNALS
from kaput.scenario.events import EVENTS
from kaput.scenario.fault_kinds import KINDS, defaults_of
from kaput.scenario.model import Expect, Scenario
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import TARGETS

sys.path.insert(0, str(Path(__file__).parent))
from examples import examples

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
JAVA_TEST = ROOT / "clients" / "java" / "src" / "test" / "java" / "example" / "OrdersTest.java"
GO_TEST = ROOT / "clients" / "go" / "example" / "orders_test.go"


def pages() -> dict[Path, str]:
    """Every generated file as it should be."""
    names = (
        "RUN_FOLDER",
        "FAULTS",
        "EXPECT",
        "METRICS",
        "SCENARIO",
        "OUTAGES",
        "TUTORIAL",
        "OTHER_LANGUAGES",
    )
    docs = (ROOT / "docs" / f"{name}.md" for name in names)
    folder, faults, expect, metrics, scenario, outages, tutorial, languages = docs
    recorded = examples()
    return {
        ROOT / "monitor" / "kaput-dashboard.json": dashboard_text(),
        ROOT / "monitor" / "kaput.rules.yml": alerting_rules(builtin()),
        folder: _filled(folder, {"manifest": _manifest(), "tables": _tables(), "findings": _findings()}),
        faults: _filled(
            faults,
            {
                "faults": _faults(),
                "events": _events(),
                "targets": _targets(),
                "options": _options(),
                "kernel": _kernel(),
            },
        ),
        expect: _filled(expect, {"expect": _expect()}),
        metrics: _filled(metrics, {"signals": _signals()}),
        scenario: _filled(scenario, {"keys": _scenario()}),
        README: _filled(README, {"demo": recorded.pop("demo")}),
        tutorial: _filled(tutorial, {name: recorded.pop(name) for name in ("report", "orders")}),
        outages: _filled(outages, recorded),
        languages: _filled(languages, {"java": _code("java", JAVA_TEST), "go": _code("go", GO_TEST)}),
        findings_file.SCHEMA: json.dumps(findings_file.json_schema(), indent=2) + "\n",
    }


def _filled(path: Path, parts: dict[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        pattern = rf"(<!-- begin: {name} [^\n]*-->\n).*?(<!-- end: {name} -->)"
        text, count = re.subn(pattern, lambda m, part=part: f"{m[1]}\n{part}\n{m[2]}", text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{path}: {count} places for {name}, not one")
    return text


def _code(language: str, path: Path) -> str:
    return f"```{language}\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A Markdown table; a cell is one line, however its text is written."""
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _manifest() -> str:
    # Only findings have a heading for each model.
    rows = _fields(Manifest)
    fields = (
        (name, re.sub("GroupDrain|StoreRead|MirrorEnd", "object", kind), about) for name, kind, about in rows
    )
    return _table(("field", "type", "meaning"), fields)


def _tables() -> str:
    parts = []
    for table in TABLES.values():
        required = " Required." if table.required else ""
        parts.append(
            f"### {table.name}\n\nA row is {table.about}. Written by {table.writer}.{required}\n\n"
            + _table(
                ("column", "type", "meaning", "null means"),
                (
                    (
                        f"`{c.name}`{' (optional)' if c.optional else ''}",
                        _arrow(c.type),
                        c.about,
                        c.null or "",
                    )
                    for c in table.columns
                ),
            )
        )
    return "\n".join(parts)


def _arrow(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return "map of string to string" if pa.types.is_map(kind) else str(kind)


def _findings() -> str:
    """Every model once, in the order in which the document mentions them."""
    parts = []
    for model in _models(Findings, []):
        title = "The document" if model is Findings else model.__name__
        about = inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        parts.append(f"### {title}\n\n{about}\n\n" + _table(("field", "type", "meaning"), _fields(model)))
    return "\n".join(parts)


def _models(model: type[BaseModel], found: list[type[BaseModel]]) -> list[type[BaseModel]]:
    if model not in found:
        found.append(model)
        for kind in get_type_hints(model).values():
            for each in _leaves(kind):
                if isinstance(each, type) and issubclass(each, BaseModel):
                    _models(each, found)
    return found


def _leaves(kind: Any) -> Iterator[Any]:
    if not get_args(kind):
        yield kind
    for each in get_args(kind):
        yield from _leaves(each)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    texts = model.texts()
    for name, field in model.model_fields.items():
        if name not in texts:
            raise SystemExit(f"{model.__name__}.{name} has no text: write it below the field")
        yield f"`{field.alias or name.rstrip('_')}`", _kind(field.annotation), texts[name]


def _kind(kind: Any) -> str:
    """A type as JSON has it."""
    args = get_args(kind)
    if kind is type(None):
        return "null"
    if str(kind).startswith("typing.Annotated"):
        return _kind(args[0])
    if str(kind).startswith("typing.Literal"):
        return " or ".join(json.dumps(value) for value in args)
    if str(kind).startswith("list"):
        return f"list of {_kind(args[0])}"
    if str(kind).startswith("dict"):
        return "object" if "Any" in str(kind) or "JsonValue" in str(kind) else f"object of {_kind(args[1])}"
    if args:
        return " or ".join(dict.fromkeys(_kind(each) for each in args))
    names = {int: "integer", float: "number", str: "string", bool: "boolean"}
    if kind in names:
        return names[kind]
    return kind.__name__ if issubclass(kind, BaseModel) else "string"


def _scenario() -> str:
    """Every block of a scenario file with its keys."""
    parts = []
    for model in _models(Scenario, []):
        title = "The file" if model is Scenario else model.__name__
        about = " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())
        fields = (
            (
                f"`{field.alias or name.rstrip('_')}`",
                _in_a_file(field),
                "required" if field.is_required() else _default(_written_default(field)),
                " ".join(model.texts().get(name, "").split()),
            )
            for name, field in model.model_fields.items()
        )
        parts.append(f"## {title}\n\n{about}\n\n" + _table(("key", "type", "default", "meaning"), fields))
    return "\n".join(parts)


def _in_a_file(field: FieldInfo) -> str:
    """A type as a scenario's author writes it: `20s`, where the model has milliseconds."""
    examples = [
        each.json_schema.get("examples") for each in _notes(field, WithJsonSchema) if each.json_schema
    ]
    if not examples or not examples[0]:
        return _kind(field.annotation)
    shown = f"such as {', '.join(f'`{each}`' for each in examples[0])}"
    return shown if type(None) not in get_args(field.annotation) else f"{shown}; or null"


def _written_default(field: FieldInfo) -> Any:
    value = field.get_default(call_default_factory=False)
    serializers = _notes(field, PlainSerializer)
    return serializers[0].func(value) if serializers and value is not None else value


def _notes(field: FieldInfo, kind: type[Any]) -> list[Any]:
    """What a field's Annotated types are annotated with, of this kind."""
    every = [*field.metadata, *(note for each in get_args(field.annotation) for note in get_args(each))]
    return [note for note in every if isinstance(note, kind)]


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str | int | float) and value != "" else ""


def _expect() -> str:
    """The keys of `expect`, those that limit no anomaly first."""
    texts = Expect.texts()
    rows = ((f"`{field.alias}`", texts.get(name, "")) for name, field in Expect.model_fields.items())
    return _table(("key", "what is limited"), rows)


def _signals() -> str:
    rows = (
        (f"`{signal.name}`", signal.kind, ", ".join(signal.labels), signal.help)
        for signal in SIGNALS.values()
    )
    return _table(("signal", "kind", "labels", "meaning"), rows)


def _faults() -> str:
    parts = []
    for each in descriptions():
        options = ", ".join(_option(name, default) for name, default in each.options.items())
        lines = [f"### {each.fault}: {each.hits}", "", each.effect, "", f"Confirmed by: {each.proof}"]
        lines += ["", f"Options: {options}."] if options else []
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _option(name: str, default: Any) -> str:
    return f"`{name}`" if default is None else f"`{name}: {default}`"


def _events() -> str:
    rows = ((f"`{name}`", each.of, each.about, each.noticed) for name, each in EVENTS.items())
    return _table(("event", "of", "what happened", "noticed in"), rows)


def _targets() -> str:
    return _table(("target", "meaning"), ((f"`{form}`", text) for form, text in TARGETS.values()))


def _options() -> str:
    texts = FaultStep.texts()
    fields = {field.alias or name: texts.get(name) for name, field in FaultStep.model_fields.items()}
    rows = (
        (f"`{key}`", about or "", ", ".join(name for name in KINDS if key in defaults_of(name)) or "all")
        for key, about in fields.items()
    )
    return _table(("key", "meaning", "faults"), rows)


def _kernel() -> str:
    faults = {name: kernel_needs(name) for name in KINDS if kernel_needs(name)}
    return _table(
        ("fault", "needs"),
        ((name, "; ".join(NEEDS[need].missing for need in needs)) for name, needs in faults.items()),
    )


def main() -> None:
    """Writes what has changed."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()

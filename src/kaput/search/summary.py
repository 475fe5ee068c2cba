"""The state of a search as numbers and as lines of text: for `--show`, `--json`, and the end of a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from kaput.core import plural
from kaput.search.publishing import SCENARIO, find_folder
from kaput.search.space import Space, time_in_words
from kaput.search.store import Find, SearchStore


def numbers(space: Space, store: SearchStore) -> dict[str, Any]:
    """Numbers of a search: time, experiments, coverage, finds."""
    done, draws = store.experiments(), store.experiments("draw")
    spent = store.spent_s
    known = choices_of(space)
    return {
        "space": space.name,
        "seed": store.settings.seed,
        "spent_s": round(spent, 1),
        "experiments": len(done),
        "drawn": len(draws),
        "failed": sum(1 for each in done if each.error),
        "per_hour": round(len(done) / spent * 3600, 1) if spent else 0.0,
        "choices_tried": len({arm for each in draws for arm in each.choices.arms} & known),
        "choices": len(known),
        "signatures": len({name for each in draws for name in each.signatures}),
        "found": len(store.finds("found")),
        "unconfirmed": len(store.finds("candidate")),
        "rejected": len(store.finds("rejected")),
    }


def find_numbers(store: SearchStore, find: Find) -> dict[str, Any]:
    """Numbers of a find."""
    known = asdict(replace(find, choices=replace(find.choices, arms=())))
    low, high = find.rate.wilson
    return {
        **known,
        "interval": [round(low, 3), round(high, 3)],
        "scenario": str(find_folder(store, find) / SCENARIO),
    }


def lines(space: Space, store: SearchStore) -> Iterator[str]:
    """The state of a search as lines of text."""
    of = numbers(space, store)
    yield f"{space.name}: {space.file.title}"
    yield (
        f"{minutes(of['spent_s'])} of search, {plural(of['experiments'], 'experiment')} "
        f"({of['drawn']} drawn, {of['failed']} failed), {of['per_hour']:g} an hour; "
        f"{of['choices_tried']} of {of['choices']} choices tried, {plural(of['signatures'], 'signature')}; "
        f"seed {of['seed']}"
    )
    finds = store.finds("found")
    yield f"{plural(len(finds), 'find')}, {of['unconfirmed']} not confirmed, {of['rejected']} rejected"
    for find in finds:
        seen_as = f", first seen as {find.seen_as}" if find.seen_as else ""
        yield f"  {find.name}: after {minutes(find.after_s)} and {plural(find.after, 'experiment')}{seen_as}"
        yield f"    it reproduced in {find.rate.text} tries, and in {find.again} more draws"
        for step in find.choices.steps:
            yield f"    {in_words(step)}"
        for key, value in find.choices.settings.items():
            yield f"    {key}={value}"
        yield f"    kaput run {find_folder(store, find) / SCENARIO} --seed {find.seed}"


def minutes(seconds: float) -> str:
    """`3 min 12 s`."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def in_words(step: dict[str, Any]) -> str:
    """A step as a line of text."""
    rest = [f"{key} {value}" for key, value in step.items() if key not in ("at", "fault", "target")]
    return ", ".join(
        [f"at {time_in_words(step.get('at'))}: {step.get('fault')} {step.get('target', 'any')}", *rest]
    )


def choices_of(space: Space) -> set[str]:
    """The names of all possible choices."""
    templates = {knob.arm(option) for t in space.templates for knob in t.knobs for option in knob.options}
    return templates | {knob.arm(option) for knob in space.settings for option in knob.options}

"""What became of the keys of topics that were resized."""

from __future__ import annotations

from collections import Counter

from kaput.analysis.account import Account, Resized
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Place
from kaput.analysis.questions import keys
from kaput.analysis.stages.by_key import KeyContext
from kaput.analysis.stages.job import Job, Tables


def add(job: Job, given: Inputs, account: Account, sums: Tables) -> None:
    """Adds what the run's resized topics tell to the account; nothing where there is none."""
    topics = given.resized
    if not topics:
        return
    wanted = {producer: n for producer, (topic, n) in given.keyed.items() if topic in topics}
    found = _found(job, wanted) if wanted else None
    names = given.names
    written = {names.located(code) for code in sums["log"]["place"].drop_nulls()}
    read = {(g, names.located(c)) for g, c in sums["delivered"].select("group", "place").drop_nulls().rows()}
    for topic in topics:
        places: dict[int, set[Place]] = {}
        late: Counter[int] = Counter()
        if found is not None:
            for code, key, _ in found["stored"].drop_nulls().iter_rows():
                if names.located(code)[0] == topic:
                    places.setdefault(key, set()).add(names.located(code))
            for group, producer, n in found["out_of_order"].iter_rows():
                if given.keyed[producer][0] == topic:
                    late[group] += n
        groups = range(len(given.groups))
        account.resized.append(
            Resized(
                topic,
                written=sum(place[0] == topic for place in written),
                keys=len(places) if found is not None else None,
                moved=sum(len(where) > 1 for where in places.values()) if found is not None else None,
                read={g: sum(group == g and place[0] == topic for group, place in read) for g in groups},
                out_of_order={g: late[g] for g in groups} if found is not None else {},
            )
        )


def _found(job: Job, wanted: dict[int, int]) -> Tables:
    context = KeyContext.first(wanted)
    found = job.keys(context)
    after = keys.later(found["earliest"])
    return found if after.is_empty() else job.keys(KeyContext(wanted, after))

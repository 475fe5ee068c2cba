"""What generated runs are drawn from: faults of every kind, several at once, on brokers and on clients."""

from __future__ import annotations

from hypothesis import strategies as st

from second_opinion.simulated import FaultSpec, World

BROKER_FAULTS = (
    "kill", "pause", "isolate", "disk-stall", "cut", "stop", "power-loss", "disk-loss", "delay", "noop",
)  # fmt: skip
_TIMES = st.integers(200, 2_000).map(lambda tens: 10 * tens)
_MINIMA = st.integers(1, 3)
_LENGTHS = st.sampled_from((500, 3_000, 8_000, 12_000, 18_000))


@st.composite
def _faults(draw: st.DrawFn, clusters: int) -> tuple[FaultSpec, ...]:
    """Up to four; never two at once on the same target."""
    brokers = [1, 1, 2, 3] + ([1001, 1002] if clusters == 2 else [])
    found: list[FaultSpec] = []
    if clusters == 1 and draw(st.sampled_from((True, False, False))):
        found.append(FaultSpec("change-config", "topic orders", draw(_TIMES), draw(_LENGTHS), draw(_MINIMA)))
    for _ in range(draw(st.integers(0, 4))):
        target = draw(st.sampled_from([*brokers, *brokers, "producer 0", "member 1", "mirror"]))
        fault = draw(st.sampled_from(BROKER_FAULTS if isinstance(target, int) else ("kill", "pause")))
        one = FaultSpec(fault, target, draw(_TIMES), draw(_LENGTHS))
        if not any(_meet(one, other) for other in found):
            found.append(one)
    return tuple(sorted(found, key=lambda f: (f.begin, str(f.target))))


def _meet(one: FaultSpec, other: FaultSpec) -> bool:
    apart = one.begin > other.begin + other.length + 2_000 or other.begin > one.begin + one.length + 2_000
    return one.target == other.target and not apart


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A run of any kind."""
    clusters = draw(st.sampled_from((1, 1, 1, 2)))
    replicas = draw(st.sampled_from((3, 3, 3, 2, 1)))
    return World(
        seed=draw(st.integers(0, 1 << 30)),
        acks=draw(st.sampled_from(("all", "all", 1))),
        min_isr=draw(st.sampled_from((1, 2) if replicas > 1 else (1,))),
        partitions=draw(st.integers(1, 4)),
        replicas=replicas,
        clusters=clusters,
        session=draw(st.sampled_from((9_000, 3_000))),
        unclean=draw(st.sampled_from((False, False, False, True))),
        timeout=draw(st.sampled_from((120_000, 5_000))),
        misled=draw(st.sampled_from((False, False, True))),
        transactions=draw(st.sampled_from((False, False, True))),
        moved=draw(st.sampled_from((None, 10_000))) if clusters == 2 else None,
        faults=draw(_faults(clusters)),
    )

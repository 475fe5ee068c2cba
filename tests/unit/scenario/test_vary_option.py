"""`--vary`: values apart, every combination, and what is wrong with either."""

from __future__ import annotations

import pytest

from kaput.scenario.overrides import combinations, split, varied


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("workload.producers.0.acks=0,1,all", ["0", "1", "all"]),
        ("workload.groups.0.config.group.protocol=classic, consumer", ["classic", "consumer"]),
        ("topics.0.assignment=[[1, 2]],[[2, 1]]", ["[[1, 2]]", "[[2, 1]]"]),
        ("title='a, b',\"c\"", ["'a, b'", '"c"']),
        ("expect.lost='>0',0", ["'>0'", "0"]),
        ("title=Zürich,東京", ["Zürich", "東京"]),
        ("topics.0.config={a: 1},{}", ["{a: 1}", "{}"]),
        ("title=one", ["one"]),
    ],
)
def test_varied_values_are_split_like_yaml(text: str, values: list[str]) -> None:
    """Commas inside brackets and quotes part nothing; each value is what the user wrote."""
    key = text.partition("=")[0]
    assert split(text) == [f"{key}={value}" for value in values]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload.producers.0.acks", "write a path, an equals sign and values"),
        ("workload.producers.0.acks=", "write a path, an equals sign and values"),
        ("=1,2", "write a path, an equals sign and values"),
        ("title=a,[", "are not YAML values"),
        ("title=a],[b", "are not YAML values"),
        ("title=a,,b", "are not YAML values"),
        ("title=a,a", "'a'|the value a is given twice"),
        ("seed=1,2", "no such key: seed"),
        ("workload.producers.first.acks=1", "is a list; write a position"),
    ],
)
def test_invalid_vary_argument_is_rejected(text: str, said: str) -> None:
    """With what would be right."""
    with pytest.raises(ValueError, match=said):
        split(text)


def test_several_vary_options_give_the_cross_product() -> None:
    """The last one changes fastest; none makes one without changes."""
    found, mistakes = combinations(["title=a,b", "cluster.brokers=3,4"])
    assert not mistakes
    assert found == [
        ("title=a", "cluster.brokers=3"),
        ("title=a", "cluster.brokers=4"),
        ("title=b", "cluster.brokers=3"),
        ("title=b", "cluster.brokers=4"),
    ]
    assert combinations([]) == ([()], [])


def test_key_cannot_be_varied_twice_or_also_set() -> None:
    """Neither varied twice, however it is written, nor set and varied."""
    _, mistakes = combinations(["title=a", " title =b", "cluster.brokers=3,4"], ["cluster.brokers=5", "no"])
    assert mistakes == [
        "--vary  title =b: title is varied by another --vary as well",
        "--vary cluster.brokers=3,4: cluster.brokers is set by --set as well",
    ]


def test_manifest_records_varied_values_by_key() -> None:
    """As JSON has them; what it has no word for, as it was written."""
    written = ("workload.producers.0.acks=all", "topics.0.config.min.insync.replicas=2", "title=2020-01-01")
    assert varied(written) == {
        "workload.producers.0.acks": "all",
        "topics.0.config.min.insync.replicas": 2,
        "title": "2020-01-01",
    }

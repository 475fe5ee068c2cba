"""Several runs in one table: what differs first, means where a variant was repeated."""

from __future__ import annotations

from typing import Any

from handmade_findings import anomaly
from pydantic import JsonValue

from kaput.evidence.findings import Findings
from kaput.report.comparison import Entry, compare
from kaput.report.comparison_report import overview, to_markdown, to_text

ACKS = "workload.producers.0.acks"


def entry(
    raw: dict[str, Any],
    lost: int,
    varied: dict[str, JsonValue] | None = None,
    variant: str = "",
    run: str = "r",
) -> Entry:
    """A run that lost so many; of a variant of its own, unless one is given."""
    anomaly(raw, "lost")["count"] = lost
    findings = Findings.model_validate(raw)
    return Entry(run, variant or f"{varied}", findings.run.scenario, varied or {}, findings)


def rows(entries: list[Entry]) -> list[list[str]]:
    """The lines of the table, as words."""
    return [line.split() for line in to_text(entries).plain.splitlines()]


def test_table_shows_differences_and_lists_the_rest_below(raw: dict[str, Any]) -> None:
    """Two values of acks: the setting by its last word, the verdict, what was lost, and nothing else."""
    title, header, *lines, same = rows([entry(raw, 0, {ACKS: "all"}), entry(raw, 23, {ACKS: 1})])
    assert title == ["Runs", "of", "leader-kill-lagging-acks-1"]
    assert header == ["acks", "verdict", "lost"]
    assert lines == [["all", "held", "0"], ["1", "held", "23"]]
    assert same[:8] == ["The", "same", "in", "all:", "sent", "40,000,", "acked", "39,997,"]
    assert "duplicate 7" in " ".join(same) and "lost" not in same


def test_scenarios_are_named_where_they_differ(raw: dict[str, Any]) -> None:
    """And what some run did not measure is a dash."""
    first = entry(raw, 1)
    raw["run"]["scenario"], raw["faults"] = "twin", []
    _, header, *lines, _ = rows([first, entry(raw, 1, variant="twin")])
    assert header[:2] == ["scenario", "verdict"]
    assert [line[0] for line in lines] == ["leader-kill-lagging-acks-1", "twin"]
    assert lines[1][2:] == ["-"] * 3


def test_indistinguishable_runs_are_named_by_folder(raw: dict[str, Any]) -> None:
    _, header, *lines = rows([entry(raw, 1, run="a", variant="x"), entry(raw, 2, run="b", variant="x")])
    assert header == ["run", "verdict", "lost"]
    assert lines[:2] == [["a", "held", "1"], ["b", "held", "2"]]


def test_repeated_variants_are_means_with_their_extremes(raw: dict[str, Any]) -> None:
    """Of three runs, and of two that have a figure: nothing is claimed beyond what was measured. The verdicts
    are counted, and a failed run is one.
    """
    entries = [entry(raw, lost, {ACKS: 1}) for lost in (10, 20, 30)]
    entries += [entry(raw, lost, {ACKS: "all"}) for lost in (0, 4)]
    entries.append(Entry("-", f"{entries[-1].varied}", entries[-1].scenario, {ACKS: "all"}, None))
    found = compare(entries)
    lost = next(column for column in found.figures if column.name == "lost")
    assert lost.cells == ["20 (10 to 30)", "2 (0 to 4, n=2)"]
    assert [(column.name, column.cells) for column in found.naming] == [
        ("acks", ["1", "all"]),
        ("verdict", ["3 held", "2 held, 1 failed"]),
        ("runs", ["3", "3"]),
    ]
    assert found.title.endswith(": means (minimum to maximum)")
    assert "interval" not in to_text(entries).plain


def test_five_repetitions_get_an_interval_table(raw: dict[str, Any]) -> None:
    """Only variants with so many; of what is the same in all runs there is none to tell."""
    entries = [entry(raw, lost, {ACKS: 1}) for lost in (0, 0, 0, 0, 50)]
    entries += [entry(raw, lost, {ACKS: "all"}) for lost in (0, 4)]
    lines = [line.split() for line in to_text(entries).plain.splitlines()]
    at = lines.index(["95", "%", "intervals", "of", "the", "means", "(bootstrap)"])
    assert lines[at + 1] == ["acks", "lost"] and lines[at + 3] == ["all", "-"]
    assert lines[2][:3] == ["1", "5", "held"] and lines[2][-4:] == ["10", "(0", "to", "50)"]
    setting, low, _, high = lines[at + 2]
    assert setting == "1" and float(low) == 0 and 10 < float(high) <= 50
    assert "10 (0 to 50)" in to_markdown(entries).replace("\\", "")


def test_failed_run_has_a_row_without_figures(raw: dict[str, Any]) -> None:
    failed = Entry("-", "2", "leader-kill-lagging-acks-1", {ACKS: 1}, None)
    _, _, _, line = rows([entry(raw, 3, {ACKS: "all"}), failed])
    assert line[:3] == ["1", "failed", "-"]


def test_settings_with_the_same_last_word_show_more_of_the_path(raw: dict[str, Any]) -> None:
    """A config key is one end; where ends are alike, more of the path is shown."""
    keys = [f"workload.groups.{n}.config.group.protocol" for n in (0, 1)]
    varied: dict[str, JsonValue] = dict.fromkeys(keys, "x")
    names = [column.name for column in compare([entry(raw, 0, varied)] * 2).naming]
    assert names[:2] == ["0.config.group.protocol", "1.config.group.protocol"]


def test_any_other_anomaly_is_shown_where_there_is_one(raw: dict[str, Any]) -> None:
    """A ghost in one of the runs."""
    first = entry(raw, 0, {ACKS: 1})
    assert "ghost" not in [column.name for column in compare([first, first]).figures]
    anomaly(raw, "ghost")["count"] = 2
    found = compare([first, entry(raw, 0, {ACKS: "all"})])
    assert found.figures[0].name == "ghost" and found.figures[0].cells == ["0", "2"]


def test_metadata_delay_is_shown_when_clients_are_compared(raw: dict[str, Any]) -> None:
    """By the last producer; not of kaput's own client alone."""
    key = "workload.producers.0.client"

    def run(client: str, ms: float, varied: dict[str, JsonValue]) -> Entry:
        known = {"client": client, "producers": 2, "first_ms": 1.0, "last_ms": ms}
        change = {"topic": "t", "partition": 0, "elected_ns": 1, "epoch": 1, "leader": 2, "old_leader": 1}
        raw["leader_changes"] = [change | {"learned": [known]}]
        raw["run"]["varied"] = varied
        return entry(raw, 0, varied)

    found = compare([run("librdkafka", 300, {key: "librdkafka"}), run("java", 900, {key: "java"})])
    (figure,) = [figure for figure in found.figures if figure.name == "leader known ms"]
    assert figure.cells == ["300", "900"]
    plain = compare([run("librdkafka", 300, {ACKS: 1}), run("librdkafka", 900, {ACKS: 0})])
    assert "leader known ms" not in [figure.name for figure in plain.figures]


def test_too_wide_table_is_transposed(raw: dict[str, Any]) -> None:
    """A column for each run, where that fits; where neither does, a line for each."""
    first = entry(raw, 23, {ACKS: 1})
    raw["faults"] = []
    found = [first, entry(raw, 0, {ACKS: "all"})]
    turned = to_text(found, 40).plain.splitlines()
    assert [line.split() for line in turned[1:5]] == [
        ["acks", "1", "all"],
        ["verdict", "held", "held"],
        ["lost", "23", "0"],
        ["unavailable", "ms", "10,012", "-"],
    ]
    assert to_text(found, 10).plain == to_text(found, 200).plain == to_text(found).plain
    assert to_text(found).plain.splitlines()[1].split()[:3] == ["acks", "verdict", "lost"]


def test_markdown_folds_figures_common_to_all_runs(raw: dict[str, Any]) -> None:
    """As text does; bars in names are escaped."""
    raw["run"]["scenario"] = "a|b"
    first = entry(raw, 0, {ACKS: 1})
    raw["run"]["scenario"] = "c"
    lines = to_markdown([first, entry(raw, 5, {ACKS: "all"})]).splitlines()
    assert lines[0] == "**Runs**" and lines[2:5] == [
        "| scenario | acks | verdict | lost |",
        "| --- | --- | --- | ---: |",
        "| a\\|b | 1 | held | 0 |",
    ]
    assert lines[7].startswith("The same in all: sent 40,000, acked 39,997, duplicate 7, ")


def test_group_figures_without_groups_are_dashes(raw: dict[str, Any]) -> None:
    """Nobody reads: nothing is unseen, and nothing is seen."""
    raw["groups"] = []
    found = {column.name: column.cells for column in compare([entry(raw, 0)] * 2).figures}
    assert found["unseen"] == found["redelivered"] == ["-", "-"]


def statistics(entries: list[Entry]) -> list[list[str]]:
    """The lines of that section, as words."""
    text = to_text(entries).plain
    return [line.split() for line in text[text.index("Statistics over") :].splitlines()]


def test_few_repetitions_have_mean_minimum_and_maximum(raw: dict[str, Any]) -> None:
    """No interval, which would be guessed; unmeasured figures are a dash."""
    raw["faults"] = []
    title, header, *lines = statistics([entry(raw, lost, variant="x") for lost in (0, 8)])
    assert " ".join(title) == "Statistics over 2 runs: 2 held"
    assert header == ["runs", "mean", "minimum", "maximum"]
    assert ["lost", "2", "4", "0", "8"] in lines and ["election", "ms", "0", "-", "-", "-"] in lines
    assert " ".join(lines[-1]) == "With 5 or more runs, a 95 % interval of the mean is shown as well."


def test_five_repetitions_interval_is_within_the_range(raw: dict[str, Any]) -> None:
    """In text and in Markdown; variants that were repeated have their own table."""
    entries = [entry(raw, lost, variant="x") for lost in (0, 0, 0, 0, 48)]
    _, header, *lines = statistics(entries)
    assert header[-3:] == ["95", "%", "interval"]
    (lost,) = (line for line in lines if line[0] == "lost")
    low, high = float(lost[5]), float(lost[7])
    assert lost[1:5] == ["5", "9.60", "0", "48"] and 0 <= low < 9.6 < high <= 48
    assert "| 95 % interval |" in to_markdown(entries)
    several = [*entries, *(entry(raw, 1, variant="y") for _ in range(5))]
    assert "Statistics over" not in to_text(several).plain


def test_notable_runs_and_report_paths_follow_the_table(raw: dict[str, Any]) -> None:
    """A line for each run that did not hold or lost messages, and the paths of all reports."""
    entries = [entry(raw, 0, {ACKS: "all"}), entry(raw, 23, {ACKS: 1})]
    raw["verdict"] = "inconclusive"
    entries += [entry(raw, 0, {ACKS: 0}), Entry("-", "f", entries[0].scenario, {ACKS: -1}, None)]
    text = overview(entries, ["a/report.html", "'b c/report.html'", "d/report.html"], width=20).plain
    lines = text[text.index("Runs that did not") :].splitlines()
    assert [line[:45] for line in lines[1:3]] == [
        "  - acks 1: HELD, with permitted loss: 40,000 s"[:45],
        "  - acks 0: INCONCLUSIVE: 40,000 sent, 39,997 a"[:45],
    ]
    assert [line.split(maxsplit=2) for line in lines[5:]] == [
        ["run", "report"],
        ["acks", "all", "a/report.html"],
        ["acks", "1", "'b c/report.html'"],
        ["acks", "0", "d/report.html"],
    ]
    assert "Reports" not in overview(entries, []).plain


def test_members_that_share_a_group_have_figures(raw: dict[str, Any]) -> None:
    """How many there are, idle ones, the lag and rebalances; with one member alone none of that is told."""
    alone = entry(raw, 0, {"members": 1})
    assert not any("idle" in " ".join(row) for row in rows([alone, alone]))
    group = raw["groups"][0]
    group["members"] = [{"member": f"member-{n}", "delivered": 100 * (n == 1)} for n in (1, 2)]
    group |= {"lag": {"max": 70, "final": 0}, "delivered_per_s": 330.5}
    rebalance = {"group": "billing", "trigger": "x", "started_ns": 0, "members": 2, "redelivered": 0}
    raw["rebalances"] = [{**rebalance, "ended_ns": 2_500_000, "unowned_partition_seconds": 1.5}]
    text = to_markdown([alone, entry(raw, 0, {"members": 2})])
    header, _, first, second = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    )
    told = dict(zip(header, zip(first, second, strict=True), strict=True))
    assert told["idle members"] == ("0", "1") and told["greatest lag"] == ("-", "70")
    assert told["longest rebalance ms"] == ("-", "2.50") and told["unowned partition-s"] == ("0", "1.50")


def test_resized_topics_have_figures(raw: dict[str, Any]) -> None:
    """How long it took, keys that moved, and what groups missed."""
    few = entry(raw, 0, {"partitions": 1})
    group = {"group": "billing", "partitions_read": 6, "out_of_order_by_key": 17, "stored_too_early": 23}
    raw["resized"] = [
        {
            "topic": "orders", "partitions_before": 3, "partitions": 6, "partitions_written": 6,
            "keys": 100, "keys_moved": 49, "groups": [group, group],
        }
    ]  # fmt: skip
    fault = raw["faults"][0]
    raw["faults"] = [{**fault, "fault": "resize", "target": "topic orders", "injected_ns": 5_000_000}]
    raw["faults"][0]["effective_ns"] = 12_000_000
    text = to_text([few, entry(raw, 0, {"partitions": 6})]).plain
    assert all(
        name in text for name in ("resize ms", "keys moved", "out of order by key", "stored too early")
    )
    assert "49" in text and "34" in text and "46" in text

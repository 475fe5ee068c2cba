"""Every mistake that a user makes with a verb ends with one sentence: where it is, and what to do."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.called import called

RECORDED = Path(__file__).parents[2] / "recorded" / "noop"
FILES = {
    "text.txt": "not yaml: [\n",
    "empty.yaml": "",
    "list.yaml": "- 1\n",
    "bad.yaml": "version: 1\ntitle: x\nfaults: [{at: 5 sec, fault: kill, target: leader orders}]\n",
    "findings.json": "{}",
    "half/manifest.json": "{",
}
# A sentence says what to do by naming what is right, or the command that helps.
WHAT_TO_DO = re.compile(
    r"see kaput .*--help|did you mean|choose|\b(write|give|name|use|set|add|save|leave)\b|starts one"
    r"|check that|`?kaput [\w -]+`? (makes|writes|lists|prints|first)|requires?|a store is|names a store"
    r"|--pattern finds|no such file in /|is a (file|directory)|libs/kafka_|not valid YAML: |is not HOST:PORT"
)
MISTAKES = """
run; run nope; run missing.yaml; run folder; run text.txt; run empty.yaml; run list.yaml; run bad.yaml
run noop --set foo; run noop --set workload.producers.9.acks=1; run noop --brokers x; run noop --brokers 0
run noop --mode zk; run noop --kafka 2.8.0; run noop --kafka-home folder; run noop --bootstrap-servers foo
run noop --bootstrap-servers 127.0.0.1:DEAD; run noop --metrics 127.0.0.1:TAKEN; run noop --tag nope
run noop --baseline findings.json; run noop --baseline missing.json; run noop --runs text.txt
run noop -o yaml; run leader-isolated-acks-1 --network loopback; run noop --use-existing-topic
matrix; matrix missing.yaml; matrix bad.yaml; matrix --default --cells foo; matrix --default --vary x
regress 4.3.1 4.4.0; regress a b noop; regress 4.3.1 4.4.0 noop --budget 8x
search; search --space nope; search --space text.txt; search --resume nowhere; search noop --scale 3
undo nowhere; undo recorded; scenarios show nope; scenarios check bad.yaml; scenarios check folder
scenarios from missing; scenarios lst; cache clear nope; cache lis
demo --runs text.txt; demo x; up nope; up --kafka 1.0; up --security tls; up --name 'a b'
up --metrics 127.0.0.1:TAKEN; serve --config a; serve --logs text.txt
status --cluster nope; grow x; shell --cluster nope; down --cluster nope
watch --bootstrap-servers 127.0.0.1:DEAD; watch --group g
watch --alerts missing.yaml --bootstrap-servers a:1; compare dc1 dc2; compare 127.0.0.1:DEAD 127.0.0.1:DEAD
compare dc1; doctor --bootstrap-servers 127.0.0.1:DEAD; doctor --bootstrap-servers a:b; doctor KP999 --prove
doctor --bootstrap-servers nowhere.invalid:9092; doctor --ignore missing.json; doctor --fail-on high
metrics --bootstrap-servers 127.0.0.1:DEAD --once; metrics --bootstrap-servers a:1 --listen foo
reassign; reassign --bootstrap-servers 127.0.0.1:DEAD --all-topics --balance
reassign --throttle fast --balance; failover dc1 dc2; failover dc1 dc2 --group g
failover 127.0.0.1:DEAD 127.0.0.1:DEAD --group g
fault inject kill --cluster nope; fault kinds kil; fault inject
alerts check text.txt; alerts check missing; alerts show nope; alerts rules; alerts score nowhere
alerts tune nowhere --rule nope; sequence check missing; sequence check text.txt; sequence check --expect 5
sequence check --pattern x text.txt
replay a b --bootstrap-servers 127.0.0.1:DEAD; peek orders --replica 1; peek orders/0
peek orders/0 --replica 1 --bootstrap-servers 127.0.0.1:DEAD; tool nope; tool
inside; keep list missing.db; keep list text.txt; keep list mongodb://x; keep purge missing.db
analyze missing; analyze text.txt; analyze folder; analyze recorded --spark-conf x
report missing; report folder; report half; report recorded --format pdf
export missing --format csv; export recorded --format csv --table nope
export recorded --format jepsen --table log; export recorded --format csv --out folder
dashboard --port TAKEN; dashboard --port 99999; bug missing; bug folder
bench generate folder --messages x; anlyze; faults list
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with files of the wrong kind."""
    place = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    (place / "folder").mkdir()
    (place / "folder" / "file").write_text("x")
    shutil.copytree(RECORDED, place / "recorded")
    return place


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """A port on which nothing listens, and one that is taken."""
    with socket.socket() as dead, socket.socket() as taken:
        for each in (dead, taken):
            each.bind(("127.0.0.1", 0))
        taken.listen()
        yield {"DEAD": str(dead.getsockname()[1]), "TAKEN": str(taken.getsockname()[1])}


@pytest.mark.parametrize("command", [each.strip() for each in re.split("[;\n]", MISTAKES) if each.strip()])
def test_every_mistake_says_what_to_do(
    command: str,
    place: Path,
    ports: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit status 2, or 4 for a cluster that does not answer; no number of the system's, no traceback."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))  # no cluster is running there
    monkeypatch.setenv("COLUMNS", "1000")
    for name, port in ports.items():
        command = command.replace(name, port)
    done = called(shlex.split(command), monkeypatch, capsys)
    message = done.stderr.partition("kaput: ")[2]
    unanswered = "cannot be reached" in message
    assert done.status == (4 if unanswered else 2), done
    assert done.stdout == ""
    assert WHAT_TO_DO.search(message), message
    assert not re.search(r"Errno|Traceback|Error\b|Input should be|validation error", message), message

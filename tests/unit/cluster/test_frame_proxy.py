"""The proxy as a process, between clients and a broker of a few lines: everything that it may do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fakes.frame_broker import API_VERSIONS, END_TXN, HEARTBEAT, Client, FrameBroker, answer, request
from kaput.cluster.frames.error_answers import ErrorAnswer
from kaput.cluster.frames.frame_proxy import FrameCounts, FrameProxy, FrameRule, SeenFrame
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.properties import NodeLayout
from kaput.errors import LabError
from kaput.processes.ownership import Owner
from waiting import PATIENCE_S, eventually

ANSWER = len(answer(0))


def _jar(folder: Path) -> Path:
    """The schemas of EndTxn version 3, with nothing in its request, as Kafka's jar has them."""
    jar = folder / "kafka-clients-1.jar"
    code = {"name": "ErrorCode", "type": "int16", "versions": "0+"}
    schema = {"validVersions": "3", "flexibleVersions": "none"}
    with zipfile.ZipFile(jar, "w") as made:
        for kind, fields in (("Request", []), ("Response", [code])):
            made.writestr(f"common/message/EndTxn{kind}.json", json.dumps({**schema, "fields": fields}))
    return jar


class Bench:
    """A proxy in front of a broker; what it reports, and clients."""

    def __init__(self, owner: Owner, network: Loopback, folder: Path) -> None:
        self.broker = FrameBroker()
        self.for_clients, self.for_brokers = network.ports(2)
        at = self.broker.port
        proxied = {"clients": (self.for_clients, at), "brokers": (self.for_brokers, at)}
        place = NodeLayout(1, "broker", "127.0.0.1", at, None, folder, internal_port=at, proxied=proxied)
        self.proxy = FrameProxy(owner, network, place, [_jar(folder)])
        self.proxy.start()
        self.proxy.wait_ready()
        self.frames: list[SeenFrame] = []
        self.clients: list[Client] = []

    def client(self, port: int | None = None) -> Client:
        """A new connection to the proxy, as a client's unless given otherwise."""
        self.clients.append(Client(port or self.for_clients))
        return self.clients[-1]

    def rule(self, what: str, **how: object) -> None:
        """Puts a rule for EndTxn in force."""
        rule = FrameRule(**{"id": "r", "api": END_TXN, "what": what, **how})  # type: ignore[arg-type]
        self.proxy.put(rule, self.frames.append)

    def end(self) -> FrameCounts:
        return self.proxy.end("r")


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    network = Loopback()
    with Owner(marks_environment=False) as owner:
        made = Bench(owner, network, tmp_path_factory.mktemp("proxy"))
        yield made
        made.broker.close()
    network.close()


@pytest.fixture
def bench(placed: Bench) -> Iterator[Bench]:
    """One process for all tests; each begins without rules, clients and memories."""
    placed.broker.asked.clear()
    placed.frames.clear()
    yield placed
    for client in placed.clients:
        client.close()
    placed.clients.clear()


def test_traffic_passes_unchanged_without_a_rule(bench: Bench) -> None:
    """In both directions, whatever it is."""
    client = bench.client()
    client.send(request(END_TXN, 1), request(HEARTBEAT, 2), b"GET / HTTP/1.1\r\n\r\n" * 3)
    assert client.read(2 * ANSWER) == answer(1) + answer(2)
    assert bench.broker.requests()[:2] == [request(END_TXN, 1), request(HEARTBEAT, 2)]


def test_delayed_nth_request_holds_back_its_connection_only(bench: Bench) -> None:
    """Other connections don't; the frames are reported with all that is known of them."""
    client, other = bench.client(), bench.client()
    bench.rule("delay", delay_s=0.4, nth=2)
    client.send(request(END_TXN, 1, "app"), request(END_TXN, 2, "app"), request(HEARTBEAT, 3, "app"))
    assert client.read(ANSWER) == answer(1)
    other.send(request(END_TXN, 9))
    assert other.read(ANSWER) == answer(9)
    assert client.read(2 * ANSWER) == answer(2) + answer(3)
    came = {frame: at for at, frame in bench.broker.asked}
    late = came[request(END_TXN, 2, "app")] - came[request(END_TXN, 1, "app")]
    assert 0.35 < late < 3 and bench.broker.requests()[-2:] == [
        request(END_TXN, 2, "app"), request(HEARTBEAT, 3, "app"),
    ]  # fmt: skip
    assert bench.end() == FrameCounts(4, 3, 1)
    (delayed,) = [frame for frame in bench.frames if frame.acted]
    assert delayed[2:] == (3, 2, "app", client.name) and abs(time.time_ns() - delayed.at_ns) < 60e9


def test_delayed_request_is_delivered_after_the_sender_closes(bench: Bench) -> None:
    """As what is on its way in a network does."""
    client = bench.client()
    bench.rule("delay", delay_s=0.5)
    client.send(request(END_TXN, 1))
    assert eventually(lambda: bool(bench.frames), 5)
    client.close()
    assert eventually(lambda: bench.broker.requests() == [request(END_TXN, 1)], 5)
    bench.end()
    assert bench.broker.requests() == [request(END_TXN, 1)]


def test_end_of_a_rule_releases_delayed_requests(bench: Bench) -> None:
    client = bench.client()
    bench.rule("delay", delay_s=60.0)
    client.send(request(END_TXN, 1))
    assert client.silent()
    assert bench.end().acted == 1
    assert client.read(ANSWER) == answer(1)


def test_dropped_request_stalls_its_connection_until_the_rule_ends(bench: Bench) -> None:
    """Until the rule ends: then that connection is closed, and others are as they were."""
    client, other = bench.client(), bench.client()
    bench.rule("drop-request", nth=1)
    client.send(request(HEARTBEAT, 1), request(END_TXN, 2), request(HEARTBEAT, 3))
    assert client.read(ANSWER) == answer(1) and client.silent()
    other.send(request(END_TXN, 4))
    assert other.read(ANSWER) == answer(4)
    assert bench.end() == FrameCounts(4, 2, 1)
    assert client.read(1) == b""
    assert bench.broker.requests() == [request(HEARTBEAT, 1), request(END_TXN, 4)]


def test_dropped_response_does_not_stop_the_request(bench: Bench) -> None:
    """Later requests arrive as well; their answers cannot come before it."""
    client = bench.client()
    bench.rule("drop-response", nth=1)
    client.send(request(HEARTBEAT, 1), request(END_TXN, 2), request(HEARTBEAT, 3))
    assert client.read(ANSWER) == answer(1) and client.silent()
    assert len(bench.broker.requests()) == 3
    assert bench.end().acted == 1
    assert client.read(1) == b""


def test_response_after_the_end_of_the_rule_passes(bench: Bench) -> None:
    """Nothing is left of a rule behind its end."""
    client = bench.client()
    bench.broker.hold.clear()
    bench.rule("drop-response")
    client.send(request(END_TXN, 1), request(HEARTBEAT, 2))
    assert eventually(lambda: bool(bench.frames), 5)
    assert bench.end().acted == 1
    bench.broker.hold.set()
    assert client.read(2 * ANSWER) == answer(1) + answer(2)


def test_disconnect_replaces_the_request(bench: Bench) -> None:
    """The client may connect again at once."""
    client = bench.client()
    bench.rule("disconnect", nth=1)
    client.send(request(END_TXN, 1))
    assert client.read(1) == b""
    again = bench.client()
    again.send(request(END_TXN, 2))
    assert again.read(ANSWER) == answer(2)
    assert bench.end().acted == 1 and bench.broker.requests() == [request(END_TXN, 2)]


def test_error_response_keeps_order_and_skips_the_broker(bench: Bench) -> None:
    """A question without consequences holds its place among the answers."""
    client = bench.client()
    bench.rule("error", error=ErrorAnswer("EndTxn", 16, whole=True))
    client.send(request(HEARTBEAT, 1), request(END_TXN, 2), request(HEARTBEAT, 3))
    wrong = answer(2, bytes.fromhex("0010"))
    assert client.read(2 * ANSWER + len(wrong)) == answer(1) + wrong + answer(3)
    assert [frame[5] for frame in bench.broker.requests()] == [HEARTBEAT, API_VERSIONS, HEARTBEAT]
    assert bench.end().acted == 1


def test_request_version_without_an_error_response_passes(bench: Bench) -> None:
    """It matches, and nothing is done to it."""
    client = bench.client()
    bench.rule("error", error=ErrorAnswer("EndTxn", 16, whole=True))
    client.send(_of_version_5(request(END_TXN, 1)))
    assert client.read(ANSWER) == answer(1)
    assert bench.end() == FrameCounts(1, 1, 0)


def _of_version_5(frame: bytes) -> bytes:
    return frame[:6] + (5).to_bytes(2) + frame[8:]


def test_duplicated_request_gets_one_response(bench: Bench) -> None:
    """The broker is asked twice."""
    client = bench.client()
    bench.rule("duplicate")
    client.send(request(END_TXN, 1), request(HEARTBEAT, 2))
    assert client.read(2 * ANSWER) == answer(1) + answer(2) and client.silent()
    assert bench.end().acted == 1
    assert bench.broker.requests() == [request(END_TXN, 1), request(END_TXN, 1), request(HEARTBEAT, 2)]


def test_clients_and_brokers_are_matched_by_port_or_address(bench: Bench) -> None:
    """By the port they connect to, or by their address."""
    client, broker = bench.client(), bench.client(bench.for_brokers)
    for wanted, matched in ((["brokers"], 1), (["127.0.0.1"], 2), (["10.0.0.9"], 0), (None, 2)):
        bench.rule("duplicate", from_=wanted)
        for each in (client, broker):
            each.send(request(END_TXN, 1))
            each.read(ANSWER)
        assert bench.end() == FrameCounts(2, matched, matched)


def test_share_of_requests_is_repeatable_by_seed(bench: Bench) -> None:
    """About as many as wanted, and the same again."""
    client, counts = bench.client(), []
    for _ in range(2):
        bench.rule("duplicate", share=30.0, seed=7)
        client.send(*(request(END_TXN, n) for n in range(400)))
        assert len(client.read(400 * ANSWER)) == 400 * ANSWER
        counts.append(bench.end())
    assert counts[0] == counts[1] and 80 < counts[0].acted < 160


def test_observer_rule_sees_frames_modified_by_another_rule(bench: Bench) -> None:
    """Also one that comes later."""
    client, seen = bench.client(), list[SeenFrame]()
    bench.rule("delay", delay_s=0.05)
    bench.proxy.put(FrameRule("look", END_TXN), seen.append)
    client.send(request(END_TXN, 1))
    assert client.read(ANSWER) == answer(1)
    assert (bench.end().acted, bench.proxy.end("look")) == (1, FrameCounts(1, 1, 0))
    assert [frame.acted for frame in seen] == [False]


LONG = bytes(range(256)) * 12_000  # 3 MB: passed on by the kernel


def test_long_frames_pass_between_matched_frames(bench: Bench) -> None:
    """In both directions, and of two connections at once; what a rule is about is found behind one."""
    bench.broker.answer_body = LONG
    try:
        bench.rule("delay", delay_s=0.2)
        clients = [bench.client(), bench.client()]
        frames = [request(HEARTBEAT, 1, body=LONG), request(END_TXN, 2), request(HEARTBEAT, 3, body=LONG)]
        for client in clients:
            threading.Thread(target=client.send, args=frames).start()
        for client in clients:
            for correlation in (1, 2, 3):
                whole = answer(correlation, LONG)
                assert client.read(len(whole), 60) == whole
        assert sorted(bench.broker.requests()) == sorted(2 * frames)
        assert bench.end() == FrameCounts(6, 2, 2)
    finally:
        bench.broker.answer_body = b"done"


@pytest.mark.parametrize("who", ["client", "broker"])
def test_close_within_a_long_frame_is_propagated(bench: Bench, who: str) -> None:
    """To whoever is left, with what came before; nothing stays open."""
    process = psutil.Process(bench.proxy.pid)
    before, connections = process.num_fds(), len(bench.broker.connections)
    client = bench.client()
    client.send(request(HEARTBEAT, 1, body=LONG)[:-1000])
    if who == "client":
        client.close()
    else:
        assert eventually(lambda: len(bench.broker.connections) > connections, 5)
        bench.broker.let_go()
        assert client.read(1) == b""
    assert eventually(lambda: process.num_fds() <= before, 5)
    assert bench.broker.requests() == []


def test_slow_reader_applies_backpressure(bench: Bench) -> None:
    """And gets everything once it reads on."""
    bench.broker.answer_body = 10 * LONG
    try:
        client = bench.client()
        client.send(request(HEARTBEAT, 1))
        whole = answer(1, 10 * LONG)
        assert client.read(1000) == whole[:1000]
        process = psutil.Process(bench.proxy.pid)
        most = process.memory_info().rss + len(whole) // 3
        assert not eventually(lambda: process.memory_info().rss > most, 1)
        assert client.read(len(whole) - 1000, 60) == whole[1000:]
    finally:
        bench.broker.answer_body = b"done"


def test_connections_are_closed_while_the_broker_is_down(bench: Bench, tmp_path: Path) -> None:
    """And a proxy that was ended says so."""
    network = Loopback()
    (port, nobody) = network.ports(2)
    place = NodeLayout(2, "broker", "127.0.0.1", nobody, None, tmp_path, proxied={"clients": (port, nobody)})
    with Owner(marks_environment=False) as owner:
        proxy = FrameProxy(owner, network, place)
        proxy.start()
        proxy.wait_ready()
        client = Client(port)
        assert client.read(1) == b"" and not proxy.died
        client.close()
        proxy.stop()
        with pytest.raises(LabError, match="proxy of broker 2"):
            proxy.put(FrameRule("r", END_TXN), lambda _: None)
    network.close()


def test_proxy_exits_when_stdin_closes() -> None:
    """So that it is gone where kaput was killed."""
    (port,) = Loopback().ports(1)
    words = ["--host", "127.0.0.1", "--listener", f"clients:{port}:1"]
    command = [sys.executable, "-m", "kaput.cluster.frames.proxy", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proxy:
        assert proxy.stdin is not None and proxy.stdout is not None
        assert b"ready" in proxy.stdout.readline()
        proxy.stdin.close()
        assert proxy.wait(PATIENCE_S) == 0

"""What a node's log tells about its end."""

from __future__ import annotations

from pathlib import Path

from kaput.cluster.node import last_error, tail

# From a broker of Kafka 4.3.1 whose port another process had taken, shortened.
TAKEN = """\
[2026-11-23 21:05:57,986] ERROR Unable to start acceptor for PLAINTEXT (kafka.network.DataPlaneAcceptor)
org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:23570: Address already in use.
\tat kafka.network.Acceptor.openServerSocket(SocketServer.scala:615)
[2026-11-23 21:05:58,323] ERROR Exiting Kafka due to fatal exception during startup. (kafka.Kafka$)
java.lang.RuntimeException: Unable to start acceptor for PLAINTEXT
\tat kafka.server.BrokerServer.startup(BrokerServer.scala:510)
Caused by: org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:23570: Address already in use.
\t... 3 more
Caused by: java.net.BindException: Address already in use
[2026-11-23 21:05:58,406] INFO Metrics reporters closed (org.apache.kafka.common.metrics.Metrics)
"""  # noqa: E501


def test_last_error_includes_its_causes(tmp_path: Path) -> None:
    """In one line, although twenty lines about the shutdown follow; what a cause repeats is left out."""
    log = tmp_path / "server.log"
    log.write_text(TAKEN + "[2026-11-23 21:05:58,407] INFO closed (x.Y)\n" * 20)
    assert "bind" not in tail(log, 20)
    assert last_error(log) == (
        "Exiting Kafka due to fatal exception during startup: Unable to start acceptor for PLAINTEXT: "
        "Socket server failed to bind to 127.0.0.1:23570: Address already in use"
    )


def test_errors_of_an_earlier_start_are_ignored(tmp_path: Path) -> None:
    """A node appends to one log over all its starts."""
    log = tmp_path / "server.log"
    log.write_text(TAKEN)
    assert last_error(log, since=len(TAKEN)) == ""
    with log.open("a") as file:
        file.write("[2026-11-23 21:06:00,000] ERROR Shutdown broker because all log dirs have failed (k.L)\n")
    failed = "Shutdown broker because all log dirs have failed"
    assert last_error(log, since=len(TAKEN)) == failed
    full = "[2026-11-23 21:06:00,000] ERROR Error while appending (k.L)\n"
    full += "java.io.IOException: No space left on device\n"
    log.write_text(full + log.read_text()[len(TAKEN) :])
    assert last_error(log) == f"{failed}: No space left on device"
    assert last_error(tmp_path / "nothing") == tail(tmp_path / "nothing", 3) == ""

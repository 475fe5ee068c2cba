"""rsyslog with a disk queue as a client for `client: command` (docs/ADDING_A_CLIENT.md).

    kaput run examples/clients/rsyslog/kafka-away.yaml

Needs rsyslogd and its Kafka output (Debian: rsyslog, rsyslog-kafka); RSYSLOGD and RSYSLOG_MODULES say where
they are if not in their usual places. A message is acknowledged when rsyslogd has it on its socket: that is
all that a program which hands its messages to a shipper ever knows. acks, and `config` in librdkafka's names,
are the output's. rsyslog handles lines of text, so the scenario needs a group of Java's client, for which
kaput sends text.
"""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_S, DRAIN_S, STOP_S = 10, 60, 50  # kaput's patience is 120 s
CONFIG = """
global(workDirectory="{folder}" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off")
module(load="impstats" interval="1" format="json" log.syslog="off" log.file="{folder}/stats")
module(load="imptcp")
module(load="omkafka")
template(name="line" type="string" string="%rawmsg%")
input(type="imptcp" path="{folder}/in" ruleset="kafka")
ruleset(name="kafka") {{
  action(type="omkafka" name="kafka" broker=[{brokers}] topic="{topic}" template="line" confParam=[{settings}]
         partitions.auto="on" resubmitOnFailure="on" keepFailedMessages="on" failedMsgFile="{folder}/failed"
         closeTimeout="45000"
         action.resumeRetryCount="-1" action.resumeInterval="1"
         queue.type="LinkedList" queue.filename="kafka" queue.size="10000" queue.saveOnShutdown="on")
}}
"""


def say(**line):
    """One line to kaput, at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def quoted(words):
    """A list in rsyslog's configuration."""
    return ", ".join(json.dumps(str(word)) for word in words)


def start(given, folder):
    """A shipper, and a connection to it."""
    settings = {"acks": given["acks"], "enable.idempotence": given["idempotence"], **given["config"]}
    words = {n: str(v).lower() if isinstance(v, bool) else v for n, v in settings.items()}
    pairs = [f"{name}={value}" for name, value in words.items()]
    config = CONFIG.format(
        folder=folder,
        brokers=quoted(given["bootstrap_servers"].split(",")),
        topic=given["topic"],
        settings=quoted(pairs),
    )
    (folder / "rsyslog.conf").write_text(config)
    program = os.environ.get("RSYSLOGD") or shutil.which("rsyslogd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        sys.exit("rsyslogd is not installed (Debian: apt-get install rsyslog rsyslog-kafka)")
    modules = ["-M", os.environ["RSYSLOG_MODULES"]] if "RSYSLOG_MODULES" in os.environ else []
    command = [program, "-n", "-f", folder / "rsyslog.conf", "-i", folder / "pid", *modules]
    shipper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    limit = time.monotonic() + START_S
    while True:
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(folder / "in"))
            return shipper, connection
        except OSError:
            if shipper.poll() is not None or time.monotonic() > limit:
                sys.exit("rsyslogd did not start")
            time.sleep(0.1)


def handed_on(folder, count):
    """Whether the output has so many messages, and no queue any, by the latest statistics. Which of them
    Kafka has is not in these: rsyslog looks at acknowledgements only when it sends, and when it ends.
    """
    sizes, submitted = {}, 0
    for line in (folder / "stats").read_text().splitlines():
        entry = json.loads(line[line.index("{") :])
        if entry["origin"] == "core.queue":
            sizes[entry["name"]] = entry["size"]
        elif entry["name"] == "omkafka":
            submitted = entry["submitted"]
    return submitted >= count and not any(sizes.values())


def main():
    """Hands over what comes in, then waits until the shipper has sent all of it."""
    given = json.loads(sys.stdin.readline())
    folder = Path(tempfile.mkdtemp(prefix="rsyslog-"))
    try:
        shipper, connection = start(given, folder)
        say(ready=True)
        count = 0
        for text in sys.stdin:
            message = json.loads(text)
            payload = base64.b64decode(message["payload"])
            if not payload.isascii():
                sys.exit("rsyslog handles text only: give the scenario a group with client: java")
            connection.sendall(payload + b"\n")
            count += 1
            say(seq=message["seq"], outcome="acked")
        connection.close()
        limit = time.monotonic() + DRAIN_S
        while time.monotonic() < limit and shipper.poll() is None and not handed_on(folder, count):
            time.sleep(1)
        shipper.send_signal(signal.SIGTERM)
        shipper.wait(STOP_S)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

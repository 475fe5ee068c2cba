"""Checks of what is asked of the kernel, one at a time: `python inside.py CHECK`, in a namespace of its own.

test_kernel.py starts them; what a check says is in its name and its assertions. No broker is needed.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kaput.cluster.network.connections import SOCK_DIAG, destroy, established, sockets, tear_down
from kaput.cluster.network.interface import Chain, PacketRule, Queued
from kaput.cluster.network.links import KernelQueue, make_bridge, make_link, raise_loopback, remove_links
from kaput.cluster.network.netlink import Netlink, run_in_netns
from kaput.cluster.network.packet_filter import KernelFilter
from kaput.errors import LabError
from kaput.faults.rules import blocking, dropping

HERE, PORT, OTHER_PORT = "127.0.0.1", 9, 10
CLIENTS, NODE = "10.77.255.254", "10.77.0.1"
ROUNDS = 30


def connects(host: str = HERE, port: int = PORT, mark: int = 0) -> str:
    """ "yes", or why not."""
    with socket.socket() as connection:
        connection.settimeout(0.3)
        if mark:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        try:
            connection.connect((host, port))
        except OSError as error:
            return type(error).__name__
    return "yes"


def rules_do_what_they_say() -> None:
    """Dropping and refusing, each way and both, is felt and counted; afterwards all is as it was."""
    kernel = KernelFilter(None)
    with socket.create_server((HERE, PORT)):
        for how, felt in (("drop", "TimeoutError"), ("reject", "ConnectionRefusedError")):
            for direction in ("in", "out", "both"):
                kernel.put("kaput_1", blocking(["10.0.0.9", HERE], direction, how))
                assert connects() == felt, (how, direction, connects())
                assert sum(kernel.counters("kaput_1").values()) > 0
        kernel.put("kaput_1", blocking(["10.0.0.9"], "both", "drop"))
        assert connects() == "yes"
        assert kernel.counters("kaput_1") == {"in_dropped": 0, "out_dropped": 0}
        kernel.put("kaput_1", blocking([HERE], "both", "drop"))
        kernel.remove("kaput_1")
        assert connects() == "yes"


def a_share_is_a_share() -> None:
    """Of thousands of packets, also where it is small; all are counted, and those dropped."""
    kernel = KernelFilter(None)
    for percent in (20, 0.5, 99):
        kernel.put("kaput_1", dropping([HERE], "in", percent))
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            to.bind((HERE, PORT))
            for _ in range(20_000):
                sender.sendto(b"x", (HERE, PORT))
        found = kernel.counters("kaput_1")
        assert found["in_seen"] == 20_000
        share, spread = percent / 100, (percent / 100 * (1 - percent / 100) / 20_000) ** 0.5
        assert abs(found["in_dropped"] / 20_000 - share) < 6 * spread, (percent, found)


def redirected_unless_marked() -> None:
    """What begins goes to the other port, what carries the mark to where it was meant."""
    kernel = KernelFilter(None)
    rule = PacketRule(begins=True, unless_mark=7, redirect=OTHER_PORT)
    kernel.put("kaput_1", [Chain("from_node", "redirect-output", (HERE,), (rule,))])
    with socket.create_server((HERE, OTHER_PORT)):
        assert connects() == "yes"
        assert connects(mark=7) == "ConnectionRefusedError"
        assert connects(mark=8) == "yes"


def a_table_is_put_whole_or_not_at_all() -> None:
    """One bad rule at its end: the table that was there stays, with its counts, as do all others."""
    kernel = KernelFilter(None)
    with socket.create_server((HERE, PORT)):
        kernel.put("kaput_1", blocking([HERE], "in", "drop"))
        kernel.put("kaput_2", blocking(["10.0.0.9"], "in", "drop"))
        assert connects() == "TimeoutError"
        before = kernel.counters("kaput_1")
        bad = Chain("bad", "input", (HERE,), (PacketRule(redirect=OTHER_PORT),))  # not in this kind of chain
        for name in ("kaput_1", "kaput_3"):
            try:
                kernel.put(name, [*blocking(["10.0.0.9"], "out", "drop"), bad])
            except LabError as error:
                assert "the packet filter refused" in str(error), error
            else:
                raise AssertionError("it was accepted")
        assert kernel.counters("kaput_1") == before and before["in_dropped"] > 0
        assert kernel.tables() == {"kaput_1", "kaput_2"}
        kernel.remove("kaput_1")
        kernel.remove("kaput_1")
        assert kernel.tables() == {"kaput_2"} and connects() == "yes"
        try:
            kernel.counters("kaput_1")
        except LabError as error:
            assert "no table kaput_1" in str(error)
        else:
            raise AssertionError("counters of nothing")


def many_hands_do_not_mix() -> None:
    """Steps that put, count and remove at the same time each see their own."""
    kernel = KernelFilter(None)

    def play(step: int) -> None:
        for _ in range(ROUNDS // 3):
            kernel.put(f"kaput_{step}", blocking([f"10.0.0.{step}"], "both", "reject"))
            assert kernel.counters(f"kaput_{step}") == {"in_dropped": 0, "out_dropped": 0}
            assert f"kaput_{step}" in kernel.tables()
            kernel.remove(f"kaput_{step}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(play, range(1, 9)))
    assert kernel.tables() == set()


@contextlib.contextmanager
def node() -> Iterator[int]:
    """The process that holds a node's namespace, linked to a bridge here."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    limit = time.monotonic() + 300
    try:
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            assert time.monotonic() < limit
            time.sleep(0.01)
        make_bridge(CLIENTS)
        make_link("kaput1", holder.pid, NODE)
        # Until a new link carries, the kernel takes its time.
        while connects(NODE) != "ConnectionRefusedError":
            assert time.monotonic() < limit, connects(NODE)
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()


def a_node_is_reached_until_its_link_is_gone() -> None:
    """Sockets of either side, made by a visit; rules of the node's are its own."""
    with node() as pid, run_in_netns(pid, lambda: socket.create_server(("0.0.0.0", PORT))):
        assert connects(NODE) == "yes"
        kernel = KernelFilter(pid)
        kernel.put("kaput_1", blocking([CLIENTS], "in", "reject"))
        assert connects(NODE) == "ConnectionRefusedError"
        assert KernelFilter(None).tables() == set()
        kernel.remove("kaput_1")
        assert connects(NODE) == "yes"
        remove_links(["kaput1", "kaput7", "kaput-bridge"])
        remove_links(["kaput1"])
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
        assert connects(NODE) != "yes"


def an_end_is_limited_by_itself() -> None:
    """Each end has its own limit and its own account, and a second one is refused."""
    with node() as pid:
        inward, outward = KernelQueue(None, "kaput1"), KernelQueue(pid, "eth0")
        assert inward.state() == outward.state() == Queued("")
        inward.limit(1e5, 32_000, 400)  # so little that no machine is too slow to reach it
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(60):  # 84,000 bytes
                with contextlib.suppress(OSError):
                    sender.sendto(bytes(1400), (NODE, PORT))
        state = inward.state()
        assert state.kind == "tbf" and state.sent >= 28_000 and state.waited > 0
        assert outward.state() == Queued("")
        outward.limit(2e6, 32_000, 400)
        for action in (lambda: inward.limit(1e6, 32_000, 400), lambda: inward.delay(10, 0)):
            refused(action, "kaput1")
        inward.clear()
        assert inward.state() == Queued("") and outward.state().kind == "tbf"
        refused(inward.clear, "kaput1")
        outward.clear()
        for rate in (0.5, 1e12):
            refused(lambda rate=rate: outward.limit(rate, 32_000, 400), "rate")
        for rate in (1e3, 34e9):
            outward.limit(rate, max(32_000, round(rate / 800)), 400)
            outward.clear()


def refused(action: Callable[[], None], why: str) -> None:
    """The action ends in a LabError that says so."""
    try:
        action()
    except LabError as error:
        assert why in str(error), error
    else:
        raise AssertionError("it was accepted")


def connections_end_at_both_ends() -> None:
    """Of IPv4 sockets and of IPv6 ones, as Java's are; those with others stay."""
    with (
        node() as pid,
        run_in_netns(pid, lambda: socket.create_server(("0.0.0.0", PORT))) as four,
        run_in_netns(pid, lambda: socket.create_server(("::", OTHER_PORT), family=socket.AF_INET6,
                                                dualstack_ipv6=True)) as six,
        run_in_netns(pid, lambda: socket.create_server((HERE, 11))) as inner,
        run_in_netns(pid, lambda: socket.create_connection((HERE, 11))) as inner_end,
    ):  # fmt: skip
        pairs = []
        for server, port in ((four, PORT), (six, OTHER_PORT)):
            for _ in range(70):
                end = socket.create_connection((NODE, port))
                pairs += [end, server.accept()[0]]
        assert {c.own_port for c in established(pid, [CLIENTS])} == {PORT, OTHER_PORT}
        assert len(established(pid, [CLIENTS])) == 140
        tear_down(pid, [CLIENTS])
        assert established(pid, [CLIENTS]) == set()
        for end in pairs:
            end.settimeout(2)
            with end, contextlib.suppress(ConnectionError):
                raise AssertionError(f"{end} goes on: {end.recv(1)!r}")
        with inner.accept()[0] as still:
            inner_end.sendall(b"x")
            assert still.recv(1) == b"x"


def a_connection_that_has_ended_takes_no_listener_along() -> None:
    """The kernel, asked for its addresses alone, would find the listening socket."""
    never_waits = struct.pack("ii", 1, 0)  # SO_LINGER: its end is a reset, and nothing of it stays
    with (
        node() as pid,
        run_in_netns(pid, lambda: socket.create_server(("0.0.0.0", PORT))) as four,
        run_in_netns(pid, lambda: socket.create_server(("::", OTHER_PORT), family=socket.AF_INET6,
                                                dualstack_ipv6=True)) as six,
        contextlib.closing(Netlink(pid, SOCK_DIAG)) as kernel,
    ):  # fmt: skip
        for server, port in ((four, PORT), (six, OTHER_PORT)):
            with socket.create_connection((NODE, port)) as client, server.accept()[0]:
                found = sockets(kernel)
                assert len(found) == 1
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, never_waits)
            limit = time.monotonic() + 300
            while sockets(kernel):
                assert time.monotonic() < limit
            destroy(kernel, found)
            with socket.create_connection((NODE, port), 2), server.accept()[0]:
                pass


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def nothing_is_left_over_and_nothing_is_started() -> None:
    """No file descriptor, no thread, no process, however often faults come and go."""
    started: list[str] = []
    with node() as pid:
        kernel, queue = KernelFilter(pid), KernelQueue(pid, "eth0")
        watched = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system", "os.exec")
        sys.addaudithook(lambda event, _: started.append(event) if event in watched else None)

        def play() -> None:
            kernel.put("kaput_1", blocking([CLIENTS], "both", "reject"))
            kernel.counters("kaput_1")
            kernel.remove("kaput_1")
            queue.limit(1e6, 32_000, 400)
            queue.state()
            queue.clear()
            tear_down(pid, [CLIENTS])
            run_in_netns(pid, socket.socket).close()

        play()
        before = descriptors(), threading.active_count()
        for _ in range(ROUNDS):
            play()
        assert (descriptors(), threading.active_count()) == before
        kernel.close()
        assert descriptors() == before[0] - 1
        assert not started


CHECKS = (
    rules_do_what_they_say,
    a_share_is_a_share,
    redirected_unless_marked,
    a_table_is_put_whole_or_not_at_all,
    many_hands_do_not_mix,
    a_node_is_reached_until_its_link_is_gone,
    an_end_is_limited_by_itself,
    connections_end_at_both_ends,
    a_connection_that_has_ended_takes_no_listener_along,
    nothing_is_left_over_and_nothing_is_started,
)


if __name__ == "__main__":
    raise_loopback()
    {check.__name__: check for check in CHECKS}[sys.argv[1]]()

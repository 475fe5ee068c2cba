"""Apache Ivy, which comes with kaput (java/ivy-*.jar): fetches jars by their coordinates.

Not here: choosing and verifying jars (lock.py, distribution.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from kaput.cluster.network.reexec import inside
from kaput.core import first_few
from kaput.errors import DistributionError
from kaput.java import Java
from kaput.processes.ownership import OwnedProcess, Owner

# An ivysettings.xml for sites with their own mirror.
SETTINGS_VARIABLE = "KAPUT_IVY_SETTINGS"
TOTAL_TIMEOUT_S = 1800.0
STALL_TIMEOUT_S = 120.0
_LAST_OUTPUT_S = 10.0  # for the output of a process that has ended
# Before another try, if the repository lacked something that a lock file names: it was there when the lock
# file was made, so a mirror or the network has a bad moment.
RETRY_AFTER_S = (2.0, 10.0)
LATEST = "latest.release"  # as a version: the newest release
# Ivy and what its command line needs; their license and notices: NOTICE.
_JARS = sorted((Path(__file__).parent / "java").glob("*.jar"))
PATTERN = "[organisation]/[artifact]-[revision].[ext]"

# Ivy's default repository, with bounded waits. With a lock file there is nothing to resolve, and every jar is
# checked against its SHA-256 afterwards: POMs, version lists and checksum files are not needed.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="default"/>
  <timeout-constraints><timeout-constraint name="bounded" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="default" m2compatible="true" timeoutConstraint="bounded" {options}/></resolvers>
</ivysettings>
"""
_JARS_ONLY = 'usepoms="false" useMavenMetadata="false" checksums=""'


def fetch(
    modules: Sequence[tuple[str, str, str]],
    java: Java,
    into: Path,
    on_file: Callable[[], None],
    *,
    transitive: bool = False,
    ext: str = "jar",
) -> None:
    """Fetches (group, artifact, version) into `into`/group/artifact-version.`ext`; calls `on_file` for each.
    What is missing is asked for again, since a lock file names it; not if `transitive`, which also fetches
    runtime dependencies. Raises DistributionError.
    """
    into.mkdir(parents=True, exist_ok=True)
    (into / "ivy.xml").write_text(_ivy_xml(modules, transitive, ext))
    exact = not transitive and all(version != LATEST for _, _, version in modules)
    (into / "ivysettings.xml").write_text(_SETTINGS.format(options=_JARS_ONLY if exact else ""))
    settings = os.environ.get(SETTINGS_VARIABLE) or into / "ivysettings.xml"
    args: list[str | Path] = [
        java.path, "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *_proxy(),
        "-cp", os.pathsep.join(map(str, _JARS)), "org.apache.ivy.Main",
        "-settings", settings, "-ivy", into / "ivy.xml", "-cache", into / "cache", "-m2compatible",
        "-retrieve", into / PATTERN,
    ]  # fmt: skip
    for pause in () if transitive or inside() else RETRY_AFTER_S:
        try:
            return _run(args, on_file)
        except _MissingError:
            time.sleep(pause)
    return _run(args, on_file)


def newest(group: str, artifact: str, java: Java) -> str:
    """The version of its newest release in the repository. Raises DistributionError."""
    with tempfile.TemporaryDirectory() as name:
        fetch([(group, artifact, LATEST)], java, Path(name), lambda: None)
        versions = [path.stem.removeprefix(f"{artifact}-") for path in Path(name, group).glob("*.jar")]
    if len(versions) != 1:
        raise DistributionError(f"the repository named no newest release of {group}:{artifact}")
    return versions[0]


def _run(args: list[str | Path], on_file: Callable[[], None]) -> None:
    with Owner() as owner:
        ivy = owner.spawn(args, name="ivy", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        _wait(ivy, on_file)


def _ivy_xml(modules: Iterable[tuple[str, str, str]], transitive: bool, ext: str) -> str:
    lines = [
        f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} "
        f'transitive="{str(transitive).lower()}" conf={quoteattr(_conf(version, transitive))}>'
        f"{_artifact_element(artifact, ext)}</dependency>"
        for group, artifact, version in modules
    ]
    return (
        '<ivy-module version="2.0"><info organisation="kaput" module="jars"/>'
        '<configurations><conf name="default"/></configurations>\n<dependencies>\n'
        + "\n".join(lines)
        + "\n</dependencies></ivy-module>\n"
    )


def _conf(version: str, transitive: bool) -> str:
    """What is wanted of a dependency: without its POM only all that it has can be named, which is the jar."""
    if version == LATEST:
        return "default->master(*)"
    return "default->runtime(*),master(*)" if transitive else "default->*"


def _artifact_element(name: str, ext: str) -> str:
    """The `artifact` element of a dependency that is not a jar; empty for a jar, which is Ivy's default."""
    return (
        ""
        if ext == "jar"
        else f"<artifact name={quoteattr(name)} type={quoteattr(ext)} ext={quoteattr(ext)}/>"
    )


def _wait(ivy: OwnedProcess, on_file: Callable[[], None]) -> None:
    """Waits for Ivy, counting files while another thread reads its output; kills it if it stalls."""
    lines: list[str] = []
    seen, moved = 0, time.monotonic()
    limit = moved + TOTAL_TIMEOUT_S
    reader = threading.Thread(target=_read_output, args=(ivy, lines), daemon=True)
    reader.start()
    running = True
    while running:
        running = ivy.wait(0.1) is None
        if not running:
            # The last lines say why it failed. The timeout is for a child of Ivy that keeps the pipe open.
            reader.join(_LAST_OUTPUT_S)
        if len(lines) > seen:
            for line in lines[seen : (seen := len(lines))]:
                if "[SUCCESSFUL" in line:
                    on_file()
            moved = time.monotonic()
        if running and time.monotonic() > min(moved + STALL_TIMEOUT_S, limit):
            ivy.kill()
            raise DistributionError(f"nothing arrived for {STALL_TIMEOUT_S:.0f} s: is the network up?")
    if ivy.returncode != 0:
        raise _failure("\n".join(lines))


def _read_output(ivy: OwnedProcess, lines: list[str]) -> None:
    assert ivy.popen.stdout is not None
    for line in ivy.popen.stdout:
        lines.append(line.decode(errors="replace").rstrip())


class _MissingError(DistributionError):
    """The repository lacks jars, or refused them."""


def _failure(output: str) -> DistributionError:
    missing = sorted(set(re.findall(r":: ([^\s;]+;[^\s:]+): not found", output)))
    if missing:
        names = first_few([name.replace("#", ":").replace(";", ":") for name in missing], 5)
        # "Server access error at url ... (java.net.ConnectException: Connection refused)"
        refused = re.search(r"Server access error at url \S+ \((.*)\)", output)
        why = refused.group(1) if refused else "is the network up?"
        if inside():
            why = "kaput is in its own network namespace, which reaches no repository"
        return _MissingError(f"not found in the repository ({why}): {names}")
    return DistributionError(f"Ivy failed: {output[-500:]}")


def _proxy() -> list[str]:
    """Java options for https_proxy, which Java itself ignores."""
    url = urllib.parse.urlsplit(urllib.request.getproxies().get("https", ""))
    if url.hostname is None:
        return []
    return [f"-Dhttps.proxyHost={url.hostname}", f"-Dhttps.proxyPort={url.port or 80}"]

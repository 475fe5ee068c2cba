"""`kaput cache`: lists and clears kaput's part of the user's cache."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument

from kaput.cli.options import Json
from kaput.cli.verbs import Verb, group, print_json
from kaput.errors import UsageError

app = group("Show or clear what kaput has downloaded.\n\nExample: kaput cache clear", lists=True)


@app.command("list", cls=Verb)
def list_command(json: Json = False) -> None:
    """List what is in the cache, with sizes.

    Example: kaput cache list --json
    """
    from kaput.cache import CONTENTS, cache_root, cached_bytes

    sizes = {name: cached_bytes(name) for name in CONTENTS}
    if json:
        print_json({"path": str(cache_root()), "bytes": sizes})
        return
    for name, what in CONTENTS.items():
        typer.echo(f"{name:8} {_megabytes(sizes[name]):>9}  {what}")
    typer.echo(f"{'total':8} {_megabytes(sum(sizes.values())):>9}  in {cache_root()}")


@app.command("clear", cls=Verb)
def clear_command(
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAME", help="Part to delete, as in kaput cache list (default: all)."),
    ] = None,
    json: Json = False,
) -> None:
    """Delete the cache, or parts of it.

    The next run downloads and prepares what it needs again. Do not clear the cache during a run: its brokers
    could not be restarted. Exit status 2 if a cluster (kaput up) is running.

    Example: kaput cache clear cds
    """
    from kaput.cache import CONTENTS, cache_root, cached_bytes, clear
    from kaput.operate.registry import running

    for name in names or ():
        if name not in CONTENTS:
            raise UsageError(f"{name}: not in the cache; choose from {', '.join(CONTENTS)}")
    if entries := running():
        raise UsageError(f"cluster {entries[0].name} uses the cache: stop it first (kaput down)")
    freed = 0
    for name in names or CONTENTS:
        freed += (size := cached_bytes(name))
        clear(name)
        if not json:
            typer.echo(f"{name:8} {_megabytes(size):>9}  deleted")
    if json:
        print_json({"path": str(cache_root()), "freed_bytes": freed})


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"

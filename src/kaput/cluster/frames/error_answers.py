"""Encodes responses with just an error code, in all versions that allow it. Its place: faults."""

from __future__ import annotations

from kaput.cluster.protocol import response_class
from kaput.scenario.apis import ERROR_APIS


def error_answers(api: str, code: int) -> dict[str, str]:
    """By version, the bytes after the correlation id of a response with that error, in hexadecimal.

    All other fields have their defaults. `api`: one of ERROR_APIS.
    """
    answer = response_class(api)
    found = {}
    for version in range(max(answer.min_version, ERROR_APIS[api]), answer.max_version + 1):
        made = answer(version=version, error_code=code)
        if "error_code" in made.to_dict():
            header = b"\0" if answer.flexible_version_q(version) else b""  # no tagged fields
            found[str(version)] = (header + bytes(made.encode(version=version))).hex()
    return found

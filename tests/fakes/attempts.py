"""Requests for a change that are not those of the dashboard's own page, with the key: by name, the status
that answers them, and what is different in them.
"""

from __future__ import annotations

from typing import Any

from fakes.run_folders import KEY

ATTEMPTS: dict[str, tuple[int, dict[str, Any]]] = {
    "another origin": (403, {"Origin": "http://evil.example"}),
    "a page of another port": (403, {"Origin": "http://127.0.0.1:1"}),
    "a page of no site": (403, {"Origin": "null"}),
    "no origin": (403, {"Origin": None}),
    "without the key": (403, {"X_Kaput_Key": None}),
    "with a wrong key": (403, {"X_Kaput_Key": KEY[:-1]}),
    "with an empty key": (403, {"X_Kaput_Key": ""}),
    "another site": (421, {"Sec_Fetch_Site": "cross-site"}),
    "a navigation from another site": (421, {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}),
    "a page of a sibling site": (403, {"Sec_Fetch_Site": "same-site"}),
    "a form": (415, {"Content_Type": "application/x-www-form-urlencoded"}),
    "text": (415, {"Content_Type": "text/plain"}),
    "by GET": (405, {"method": "GET"}),
    "by PUT": (405, {"method": "PUT"}),
    "a question before it": (405, {"method": "OPTIONS"}),
    "without a length": (411, {"Content_Length": None, "Transfer_Encoding": "chunked"}),
}

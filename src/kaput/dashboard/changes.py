"""Requests for a change: what their bodies say, and the answer to a refused one. Who may ask: guard.py."""

from __future__ import annotations

from typing import Self

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from kaput.errors import LabError, UsageError


class Wanted(BaseModel):
    """A body: these fields and no others, of just these types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, body: bytes) -> Self:
        """What the JSON of a body says. Raises UsageError."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise UsageError(f"this asks for nothing that can be done: {error.errors()[0]['msg']}") from None


def refused(error: UsageError | LabError) -> JSONResponse:
    """The sentence: 400 for a mistake of whoever asks, 409 for what cannot be done now."""
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, UsageError) else 409)

"""The bodies of requests for a change, and the response to a refused one. Authorization: guard.py."""

from __future__ import annotations

from typing import Self

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from kaput.errors import LabError, UsageError


class ChangeRequest(BaseModel):
    """The body of a request: exactly its fields, with strict types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parses the JSON of a body. Raises UsageError."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise UsageError(f"invalid request: {error.errors()[0]['msg']}") from None


def refusal_response(error: UsageError | LabError) -> JSONResponse:
    """The error message, with status 400 for a mistake in the request, 409 if it cannot be done now."""
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, UsageError) else 409)

"""Failures as a client of the gateway sees them: a status and the OpenAI error body.

Raised by everything in this package that refuses a request; `app` turns them into responses and
`stream` into the error frame of a stream that has already begun.

ApiError          any answer that is not a success
└── BadRequest    400: the request, and where possible the parameter, is to blame
"""

from __future__ import annotations

import math

from services.common import rpc
from services.common.errors import ServiceError

_TYPE_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    502: "api_error",
    503: "unavailable_error",
    504: "timeout_error",
}


class ApiError(Exception):
    """An answer that is not a success. Source: OpenAI API reference, error object."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_seconds = retry_after_seconds

    def body(self) -> dict[str, object]:
        """The JSON body; also the payload of a stream's error frame."""
        return {
            "error": {
                "message": self.message,
                "type": _TYPE_BY_STATUS.get(self.status, "server_error"),
                "param": self.param,
                "code": self.code,
            }
        }

    def headers(self) -> dict[str, str]:
        """Retry-After in whole seconds, rounded up, where waiting helps."""
        if self.retry_after_seconds is None:
            return {}
        return {"Retry-After": str(max(1, math.ceil(self.retry_after_seconds)))}


class BadRequest(ApiError):
    """400: what the client sent cannot be served; `param` names the field to blame."""

    def __init__(
        self, message: str, *, param: str | None = None, code: str = "invalid_value"
    ) -> None:
        super().__init__(400, message, param=param, code=code)


def unknown_model(name: str, served: str) -> ApiError:
    """404 for a model this gateway does not serve."""
    return ApiError(
        404,
        f"The model '{name}' does not exist; this server has '{served}'.",
        param="model",
        code="model_not_found",
    )


def as_api_error(error: BaseException) -> ApiError:
    """The answer for anything raised while serving; a fault of ours is logged under an incident."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ServiceError):
        return ApiError(
            error.http,
            error.message,
            param=error.param or None,
            code=503 if error.http == 503 else None,
            retry_after_seconds=error.retry_after_ms / 1000 or None,
        )
    incident = rpc.incident(error).incident_id
    return ApiError(500, f"Internal error; the logs have more under incident {incident}.")

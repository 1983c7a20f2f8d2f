"""Errors that cross processes, with one table of what each means on the wire.

ServiceError
├── InvalidRequest     the request is to blame; `param` names the field
├── UnknownModel       no such model here
├── Overloaded         a queue is full; try again after `retry_after_ms`
├── NotReady           still loading, or the peer is
├── Draining           shutting down; another process may take it
├── StaleLease         a message of another epoch
├── WorkerLost         a process died with work on its hands
├── DeadlineExceeded   out of time
└── Internal           a fault of ours, logged under `incident_id`

`definite` says that the work certainly did not happen; only a definite, retryable failure may be
tried again without asking.
"""

from __future__ import annotations

from typing import ClassVar

import grpc

from services.pb.common_pb2 import ErrorDetail

DETAIL_KEY = "lamina-error-bin"
# The message crosses twice, once percent-encoded, within gRPC's soft limit of 8 KiB of metadata.
MESSAGE_BYTES_MAX = 1500


class ServiceError(Exception):
    """Base of every error that a process may answer with."""

    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    http: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    definite: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        param: str = "",
        retry_after_ms: int = 0,
        epoch: int = 0,
        incident_id: str = "",
    ) -> None:
        cut = message.encode(errors="replace")[:MESSAGE_BYTES_MAX].decode(errors="ignore")
        super().__init__(cut)
        self.message = cut
        self.param = param
        self.retry_after_ms = retry_after_ms
        self.epoch = epoch
        self.incident_id = incident_id

    @property
    def code(self) -> str:
        return type(self).__name__

    def detail(self) -> ErrorDetail:
        """What travels in the trailing metadata."""
        return ErrorDetail(
            code=self.code,
            message=self.message,
            retryable=self.retryable,
            definite=self.definite,
            retry_after_ms=self.retry_after_ms,
            epoch=self.epoch,
            incident_id=self.incident_id,
            param=self.param,
        )


class InvalidRequest(ServiceError):
    """400: the request is to blame."""

    status, http, definite = grpc.StatusCode.INVALID_ARGUMENT, 400, True


class UnknownModel(ServiceError):
    """404."""

    status, http, definite = grpc.StatusCode.NOT_FOUND, 404, True


class Overloaded(ServiceError):
    """429 with Retry-After."""

    status, http, retryable, definite = grpc.StatusCode.RESOURCE_EXHAUSTED, 429, True, True


class NotReady(ServiceError):
    """503 while loading."""

    status, http, retryable, definite = grpc.StatusCode.UNAVAILABLE, 503, True, True


class Draining(ServiceError):
    """503 while shutting down."""

    status, http, retryable, definite = grpc.StatusCode.UNAVAILABLE, 503, True, True


class StaleLease(ServiceError):
    """Never leaves the cluster: the sender refreshes its lease and tries again."""

    status, retryable, definite = grpc.StatusCode.ABORTED, True, True


class WorkerLost(ServiceError):
    """502: it is not known how far the work got."""

    status, http = grpc.StatusCode.UNAVAILABLE, 502


class DeadlineExceeded(ServiceError):
    """504."""

    status, http = grpc.StatusCode.DEADLINE_EXCEEDED, 504


class Internal(ServiceError):
    """500 with an incident id, never a stack trace."""


TABLE: dict[str, type[ServiceError]] = {
    kind.__name__: kind
    for kind in (
        *(InvalidRequest, UnknownModel, Overloaded, NotReady, Draining),
        *(StaleLease, WorkerLost, DeadlineExceeded, Internal),
    )
}


def from_detail(detail: ErrorDetail) -> ServiceError:
    """The error that a peer raised; one that we do not know is Internal."""
    kind = TABLE.get(detail.code, Internal)
    return kind(
        detail.message,
        param=detail.param,
        retry_after_ms=detail.retry_after_ms,
        epoch=detail.epoch,
        incident_id=detail.incident_id,
    )

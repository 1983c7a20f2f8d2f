"""What any failure looks like to a client."""

from __future__ import annotations

import logging

import pytest

from services.common.errors import (
    DeadlineExceeded,
    Draining,
    InvalidRequest,
    NotReady,
    Overloaded,
    ServiceError,
    WorkerLost,
)
from services.gateway.failures import ApiError, BadRequest, as_api_error


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("x"), 400, "invalid_request_error"),
        (Overloaded("x", retry_after_ms=1), 429, "rate_limit_error"),
        (NotReady("x"), 503, "unavailable_error"),
        (Draining("x"), 503, "unavailable_error"),
        (WorkerLost("x"), 502, "api_error"),
        (DeadlineExceeded("x"), 504, "timeout_error"),
    ],
)
def test_failure_of_a_service_keeps_its_status(error: ServiceError, status: int, kind: str) -> None:
    answer = as_api_error(error)
    assert answer.status == status
    assert answer.body() == {
        "error": {
            "message": "x",
            "type": kind,
            "param": None,
            "code": 503 if status == 503 else None,
        }
    }


@pytest.mark.parametrize(("milliseconds", "header"), [(1, "1"), (1000, "1"), (1001, "2")])
def test_failure_retry_after_is_rounded_up(milliseconds: int, header: str) -> None:
    answer = as_api_error(Overloaded("x", retry_after_ms=milliseconds))
    assert answer.headers() == {"Retry-After": header}


def test_failure_without_a_time_has_no_retry_after() -> None:
    assert ApiError(500, "x").headers() == {}


def test_failure_of_ours_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = as_api_error(KeyError("a secret"))
    assert answer.status == 500
    assert "secret" not in answer.message
    incident = answer.message.rpartition(" ")[2].rstrip(".")
    assert incident in caplog.text
    assert "a secret" in caplog.text


def test_failure_that_is_an_answer_stays_itself() -> None:
    refusal = BadRequest("x", param="y")
    assert as_api_error(refusal) is refusal

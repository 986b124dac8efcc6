from dataclasses import asdict

from edgelora.errors import (
    CancelledRequestError,
    InvalidRequestError,
    QuotaExceededError,
    ResourcePressureError,
)
from services.gateway.dashboard.refusal_log import RefusalLog
from tests.support.ended_generations import ended


def test_whole_answers_and_clients_that_left_are_no_refusals():
    log = RefusalLog()
    log.add(1.0, ended())
    log.add(2.0, ended(error=CancelledRequestError("the request was cancelled")))
    assert log.newest_first() == ()


def test_a_refusal_names_the_rule_or_the_quota():
    log = RefusalLog()
    pressure = {"step": "refusal", "rule": "memory_critical", "reading": "0.91"}
    quota = {"max_tokens_per_minute": "60"}
    log.add(1.0, ended(error=ResourcePressureError("no", metadata=pressure, retry_after_s=10.0)))
    log.add(2.0, ended(error=QuotaExceededError("no", metadata=quota)))
    newest, oldest = log.newest_first()
    assert (oldest.reason, oldest.rule) == ("RESOURCE_PRESSURE", "memory_critical")
    assert (oldest.at_unix_s, oldest.retry_after_s) == (1.0, 10.0)
    assert (newest.reason, newest.rule) == ("TENANT_QUOTA_EXCEEDED", "max_tokens_per_minute")


def test_nothing_of_the_request_is_kept():
    log = RefusalLog()
    typed = "what somebody typed"
    log.add(1.0, ended(error=InvalidRequestError(f"wrong: {typed}", field=typed)))
    assert typed not in repr([asdict(refusal) for refusal in log.newest_first()])


def test_only_the_newest_are_kept():
    log = RefusalLog(max_refusals=2)
    for at_s in (1.0, 2.0, 3.0):
        log.add(at_s, ended(error=QuotaExceededError("no")))
    assert [refusal.at_unix_s for refusal in log.newest_first()] == [3.0, 2.0]

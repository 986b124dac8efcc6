"""What became of requests, written by hand."""

from bench.measure import RequestRecord


def record(
    scheduled_s=0.0, *, first=1.0, finished=2.0, num_input=5, token_times=None, num_ends=1, **more
):
    """A request that was accepted and answered, unless told otherwise. Times after its arrival."""
    times_s = [first] if token_times is None and first is not None else token_times or []
    return RequestRecord(
        scheduled_s=scheduled_s,
        sent_s=scheduled_s,
        first_token_s=scheduled_s + times_s[0] if times_s else None,
        finished_s=None if finished is None else scheduled_s + finished,
        num_input_tokens=num_input,
        num_output_tokens=len(times_s),
        token_times_s=[scheduled_s + time_s for time_s in times_s],
        num_ends=num_ends,
        **{"was_accepted": True, **more},
    )


def refused(scheduled_s=0.0, **more):
    """A request that was refused as declared."""
    declared = {"error": "RESOURCE_EXHAUSTED", "reason": "QUEUE_FULL", "retry_after_s": 1.0}
    return record(
        scheduled_s,
        first=None,
        finished=None,
        **{**declared, "was_accepted": False, "failed_s": scheduled_s + 0.01, **more},
    )

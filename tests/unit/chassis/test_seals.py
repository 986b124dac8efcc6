"""Nobody without the node's key can make a claim or a ticket, and one kind is never the other."""

import math

import pytest

from edgelora.errors import TicketExpiredError, UnauthenticatedError
from edgelora.v1.monitor_service_pb2 import DeviceReport
from edgelora.v1.ticket_pb2 import RunLimits, Sealed, TenantClaim, Ticket
from services.chassis.claims import (
    open_claim,
    open_device_report,
    open_run_limits,
    open_ticket,
    seal_claim,
    seal_ticket,
)
from services.chassis.sealing import Sealer

SEALER = Sealer(b"k" * 32)


def claim(expires_at_boot_s=10.0):
    return seal_claim(SEALER, tenant_id="a", request_id="r1", expires_at_boot_s=expires_at_boot_s)


def test_a_claim_comes_back_as_it_was_sealed():
    assert open_claim(SEALER, claim(), now_boot_s=9.9).tenant_id == "a"


def test_an_expired_claim_is_refused():
    with pytest.raises(UnauthenticatedError):
        open_claim(SEALER, claim(), now_boot_s=10.0)


def test_an_expired_ticket_is_refused():
    ticket = seal_ticket(SEALER, Ticket(ticket_id="t", expires_at_boot_s=5))
    assert open_ticket(SEALER, ticket, now_boot_s=4.9).ticket_id == "t"
    with pytest.raises(TicketExpiredError):
        open_ticket(SEALER, ticket, now_boot_s=5.0)


@pytest.mark.parametrize(
    ("message", "open_sealed"),
    [
        (TenantClaim(tenant_id="a", expires_at_boot_s=math.nan), open_claim),
        (Ticket(ticket_id="t", expires_at_boot_s=math.nan), open_ticket),
        (RunLimits(expires_at_boot_s=math.nan), open_run_limits),
        (DeviceReport(expires_at_boot_s=math.nan), open_device_report),
    ],
)
def test_what_says_no_time_does_not_hold_for_ever(message, open_sealed):
    with pytest.raises((UnauthenticatedError, TicketExpiredError)):
        open_sealed(SEALER, SEALER.seal(message), 0.0)


@pytest.mark.parametrize("position", range(0, 20, 3))
def test_a_changed_payload_is_refused(position):
    sealed = claim()
    payload = bytearray(sealed.payload)
    payload[position % len(payload)] ^= 1
    with pytest.raises(UnauthenticatedError):
        open_claim(SEALER, Sealed(payload=bytes(payload), signature=sealed.signature), 0)


def test_another_key_or_no_signature_is_refused():
    with pytest.raises(UnauthenticatedError):
        open_claim(Sealer(b"x" * 32), claim(), 0)
    with pytest.raises(UnauthenticatedError):
        open_claim(SEALER, Sealed(payload=claim().payload), 0)
    with pytest.raises(UnauthenticatedError):
        open_claim(SEALER, Sealed(), 0)


def test_a_sealed_claim_is_no_ticket():
    with pytest.raises(UnauthenticatedError):
        SEALER.open(claim(), Ticket)
    assert SEALER.open(claim(), TenantClaim).request_id == "r1"


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="at least 32 bytes"):
        Sealer(b"short")

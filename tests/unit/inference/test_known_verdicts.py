"""What is remembered of grammars: a tenant's own newest, whatever others bring."""

from services.inference.constraints.known_verdicts import KnownVerdicts
from services.inference.constraints.verdict import Verdict


def name(number):
    return str(number).encode()


def test_a_tenant_that_brings_many_pushes_out_its_own():
    known = KnownVerdicts()
    known.note("a", b"kept", Verdict.FITS)
    for number in range(1000):
        known.note("b", name(number), Verdict.INVALID)
        assert known.find("b", name(number)) is Verdict.INVALID
    assert known.find("a", b"kept") is Verdict.FITS
    assert known.find("b", b"kept") is None
    assert [known.find("b", name(number)) for number in (935, 936)] == [None, Verdict.INVALID]


def test_of_one_tenant_the_one_unused_for_longest_goes():
    known = KnownVerdicts()
    for number in range(64):
        known.note("a", name(number), Verdict.FITS)
    known.note("a", name(0), Verdict.FITS)
    known.note("a", b"new", Verdict.FITS)
    assert known.find("a", name(0)) is Verdict.FITS
    assert known.find("a", name(1)) is None


def test_of_many_tenants_the_one_unused_for_longest_goes():
    known = KnownVerdicts()
    for number in range(256):
        known.note(str(number), b"g", Verdict.FITS)
    known.note("0", b"g", Verdict.FITS)
    known.note("new", b"g", Verdict.FITS)
    assert known.find("0", b"g") is Verdict.FITS
    assert known.find("1", b"g") is None

import pytest

from edgelora.errors import InvalidRequestError
from services.adapter_store.remotes.reference import PackageReference, parse_reference

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("usb/mail", ("usb", "mail", None, None)),
        ("usb/office/My.mail-2_b:v1.0", ("usb", "office/My.mail-2_b", "v1.0", None)),
        (f"G.a-r_age/mail@{DIGEST}", ("G.a-r_age", "mail", None, DIGEST)),
    ],
)
def test_a_reference_is_parsed_and_written_the_same(text, parts):
    remote, name, tag, digest = parts
    reference = PackageReference(remote=remote, name=name, tag=tag, digest=digest)
    assert parse_reference(text) == reference
    assert str(reference) == text


def test_a_pinned_reference_has_its_digest_in_place_of_a_tag():
    assert str(parse_reference("usb/mail:v1").pinned(DIGEST)) == f"usb/mail@{DIGEST}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "usb", "usb/", "/mail", "usb//mail", "usb/mail/", "usb/.", "usb/..", "usb/a/../b"),
        *("usb/../etc", "usb/.hidden", "usb/mail.", "usb/mail:", "usb/mail:a:b", "usb/mail:-a"),
        *("http://host/mail", "https://host:443/mail", "file:///etc/passwd", "usb/mail@sha256:ab"),
        *("usb/mail@", "usb/mail@sha512:" + "0" * 64, f"usb/mail:v1@{DIGEST}", "usb/ma il"),
        *("usb/mail\n", "usb/mail\0", "usb/%2e%2e", "usb/mäil", "a/" + "b" * 256, "[::1]/mail"),
        *(f"usb/mail@{DIGEST.upper()}", "x" * 65 + "/mail", "usb/mail?x=1", "usb\\mail"),
    ],
)
def test_T31_addresses_and_ways_out_of_a_remote_are_no_references(text):
    with pytest.raises(InvalidRequestError) as caught:
        parse_reference(text)
    assert caught.value.field == "package"
    assert text == "" or len(text) < 4 or text not in caught.value.message

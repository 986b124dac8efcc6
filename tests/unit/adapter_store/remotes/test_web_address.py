import pytest

from services.adapter_store.remotes.web_address import (
    Place,
    is_public,
    parse_place,
    parse_web_address,
)


def test_an_address_is_taken_apart_once():
    address = parse_web_address("https://Registry.Example:5000/team?x=1#part")
    assert address.place == Place("registry.example", 5000)
    assert str(address) == "https://registry.example:5000/team?x=1"
    assert str(parse_web_address("http://[::1]/").below("a/b")) == "http://[::1]/a/b"
    assert parse_web_address("http://host").place.port == 80


def test_a_redirect_is_joined_like_a_browser_does():
    here = parse_web_address("https://host/a/b")
    assert str(here.join("/c")) == "https://host/c"
    assert str(here.join("c")) == "https://host/a/c"
    assert str(here.join("//other:8443/c")) == "https://other:8443/c"


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "ftp://host/", "file:///etc/passwd", "gopher://host/", "http://", "http:///"),
        *("http://user@host/", "http://user:word@host/", "http://host:x/", "http://host:99999/"),
        *("http://ho st/", "http://höst/", "http://host/ü", "http://host/a\r\nb", "http://[::1/"),
        *("http://[v1.x]/", "http://-host/", "http://host/a b", "http://ho\\st/", "//host/"),
    ],
)
def test_T31_what_is_no_plain_web_address_is_refused(text):
    with pytest.raises(ValueError):
        parse_web_address(text)


def test_a_place_is_a_host_and_perhaps_a_port():
    assert parse_place("cdn.example") == Place("cdn.example", 443)
    assert parse_place("10.0.0.7:9000") == Place("10.0.0.7", 9000)
    for text in ("cdn.example/path", "cdn.example/", "user@cdn.example", ""):
        with pytest.raises(ValueError):
            parse_place(text)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
def test_T31_addresses_of_this_device_and_its_network_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:1.1.1.1"]
)
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)

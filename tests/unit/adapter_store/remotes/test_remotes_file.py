import pytest

from services.adapter_store.remotes.remotes_file import (
    DirectoryPlace,
    FsspecPlace,
    WebPlace,
    load_remotes,
)
from services.adapter_store.remotes.web_address import Place
from services.chassis.settings import ConfigError
from tests.support.tls_certificate import make_certificate

SETTING = "EDGELORA_STORE_REMOTES_FILE"


@pytest.fixture
def load(tmp_path):
    (tmp_path / "secret").write_text("  swordfish\n")

    def load_(text):
        file = tmp_path / "remotes.toml"
        file.write_text(text.replace("HERE", str(tmp_path)))
        return load_remotes(file, SETTING)

    return load_


def test_every_kind_of_remote_is_read(load, tmp_path):
    certificate = make_certificate(tmp_path).certificate
    remotes = load("""
[garage]
kind = "registry"
url = "https://registry.example/team"
user = "car"
password_file = "HERE/secret"
ca_file = "HERE/tls.crt"
allowed_hosts = ["auth.example", "10.0.0.7:9000"]
tenants = ["office"]
[site]
kind = "http"
url = "http://10.0.0.7:8080/adapters/"
allow_plain_http = true
token_file = "HERE/secret"
[usb]
kind = "directory"
path = "/media/usb"
trust_encoded = true
[cloud]
kind = "fsspec"
url = "s3://bucket/adapters"
options = { anon = false, endpoint_url = "https://s3.example" }
secret_options = { secret = "HERE/secret" }
""")
    assert {name for name, remote in remotes.items() if remote.trusts_encoded} == {"usb"}
    garage, site = remotes["garage"], remotes["site"]
    assert isinstance(garage.place, WebPlace)
    assert isinstance(site.place, WebPlace)
    assert (garage.place.kind, site.place.kind) == ("registry", "http")
    assert str(garage.place.address) == "https://registry.example/team"
    assert garage.place.authorization == "Basic Y2FyOnN3b3JkZmlzaA=="
    assert garage.place.allowed_hosts == {Place("auth.example", 443), Place("10.0.0.7", 9000)}
    assert garage.place.ca_file == certificate
    assert garage.is_open_to("office")
    assert not garage.is_open_to("kids")
    assert site.place.authorization == "Bearer swordfish"
    assert site.is_open_to("kids")
    assert isinstance(remotes["usb"].place, DirectoryPlace)
    assert isinstance(remotes["cloud"].place, FsspecPlace)
    assert remotes["cloud"].place.options == {
        "anon": False,
        "endpoint_url": "https://s3.example",
        "secret": "swordfish",
    }
    assert "swordfish" not in repr(remotes)
    assert "c3dvcmRmaXNo" not in repr(remotes)


WEB = '[a]\nkind = "http"\nurl = "https://h/"\n'
MISTAKES = {
    "not TOML": ("[a", ""),
    "no table": ("a = 1", "a has to be a table"),
    "a bad name": ('["a/b"]', "a remote's name"),
    "no kind": ("[a]", "a.kind is required"),
    "an unknown kind": ('[a]\nkind = "ftp"', "a.kind has to be"),
    "no url": ('[a]\nkind = "http"', "a.url is required"),
    "a url with a password": (WEB.replace("//h", "//u:pw@h"), "a.url has to be"),
    "a url with a query": (WEB.replace("h/", "h/?x"), "a.url has to be without a query"),
    "plain HTTP unasked": (WEB.replace("https", "http"), "a.url has to be an https address"),
    "a user alone": (WEB + 'user = "u"', "a.user has to be given together"),
    "a password itself": (WEB + 'password = "pw"', "a.password is not known"),
    "no such secret": (WEB + 'token_file = "/none"', "a.token_file has to be"),
    "two credentials": (
        WEB + 'user = "u"\npassword_file = "HERE/secret"\ntoken_file = "HERE/secret"',
        "a.token_file has to be given without",
    ),
    "no such certificate": (WEB + 'ca_file = "/none"', "a.ca_file has to be"),
    "a certificate that is none": (WEB + 'ca_file = "HERE/secret"', "a.ca_file has to be"),
    "a host that is none": (WEB + 'allowed_hosts = ["h/x"]', "a.allowed_hosts has to be"),
    "tenants that are none": (WEB + 'tenants = "all"', "a.tenants has to be"),
    "a flag that is none": (WEB + 'allow_plain_http = "yes"', "a.allow_plain_http has to be"),
    "another kind's key": (WEB + 'path = "/x"', "a.path is not known"),
    "no path": ('[a]\nkind = "directory"', "a.path is required"),
    "a relative path": ('[a]\nkind = "directory"\npath = "x"', "a.path has to be"),
    "an option that is a list": (
        '[a]\nkind = "fsspec"\nurl = "s3://b"\noptions = { x = [1] }',
        "a.options.x has to be",
    ),
    "a secret option that is no file": (
        '[a]\nkind = "fsspec"\nurl = "s3://b"\nsecret_options = { x = "pw" }',
        "a.secret_options.x has to be",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_values_are_not_shown(load, mistake):
    text, message = MISTAKES[mistake]
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert message in str(caught.value)
    assert all(line.startswith(SETTING) for line in str(caught.value).splitlines())
    assert "pw" not in str(caught.value)


def test_all_mistakes_are_reported_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load('[a]\nkind = "http"\n[b]\nkind = "directory"\nx = 1\n')
    assert len(str(caught.value).splitlines()) == 3


def test_a_file_that_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the file"):
        load_remotes(tmp_path / "none", SETTING)

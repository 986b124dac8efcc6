"""The checks that need no network: bounds hold at their edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgelora.errors import EdgeLoraError, InvalidRequestError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterSelection
from services.gateway import validation

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize("strength", [None, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("name", ["mail", "a", "a" * 64, "home.v1-2_x", DIGEST])
def test_what_is_allowed_passes(name, strength):
    selection = AdapterSelection(adapter=name, strength=strength)
    validation.check_generate(pb.GenerateRequest(prompt="Hi", adapters=[selection]))


def test_four_different_adapters_pass_and_a_fifth_does_not():
    selections = [AdapterSelection(adapter=f"a{index}") for index in range(5)]
    validation.check_generate(pb.GenerateRequest(prompt="Hi", adapters=selections[:4]))
    with pytest.raises(InvalidRequestError) as caught:
        validation.check_generate(pb.GenerateRequest(prompt="Hi", adapters=selections))
    assert caught.value.field == "adapters"


def test_auto_alone_leaves_the_choice_to_the_router():
    request = pb.GenerateRequest(prompt="Hi", adapters=[AdapterSelection(adapter="auto")])
    validation.check_generate(request)


@pytest.mark.parametrize(
    ("adapters", "field"),
    [
        ([{"adapter": "auto", "strength": 1.0}], "adapters[0].strength"),
        ([{"adapter": "auto", "strength": 0.0}], "adapters[0].strength"),
        ([{"adapter": "auto"}, {"adapter": "mail"}], "adapters[0].adapter"),
        ([{"adapter": "mail"}, {"adapter": "auto"}], "adapters[1].adapter"),
        ([{"adapter": "auto"}, {"adapter": "auto"}], "adapters[0].adapter"),
    ],
)
def test_auto_stands_alone_and_without_a_strength(adapters, field):
    selections = [AdapterSelection(**each) for each in adapters]
    with pytest.raises(InvalidRequestError, match=r"router|alone") as caught:
        validation.check_generate(pb.GenerateRequest(prompt="Hi", adapters=selections))
    assert caught.value.field == field


def test_no_alias_can_be_called_auto():
    with pytest.raises(InvalidRequestError, match="must not be auto") as caught:
        validation.check_alias("auto", "header.alias")
    assert caught.value.field == "header.alias"
    validation.check_alias("Auto", "header.alias")


@given(st.text(max_size=80))
def test_a_name_that_passes_can_be_no_path_T05(name):
    try:
        validation.check_alias(name, "name")
    except InvalidRequestError as error:
        assert not name or len(name) < 4 or name not in error.message
        return
    assert "/" not in name
    assert "\\" not in name
    assert "\0" not in name
    assert name.isascii()
    assert name.strip(".")
    assert len(name) <= 64


def test_a_header_at_every_limit_passes():
    header = pb.AdapterUploadHeader(
        alias="a" * 64,
        description="ä" * 500,
        files=[
            pb.AdapterUploadFile(name="adapter_model.safetensors", size_bytes=100),
            pb.AdapterUploadFile(name="adapter_config.json", size_bytes=2**20),
            pb.AdapterUploadFile(name="probe.jsonl", size_bytes=2**16),
        ],
        expected_generation=0,
    )
    validation.check_upload_header(header, max_weights_bytes=100)
    header.files[0].size_bytes = 101
    with pytest.raises(InvalidRequestError) as caught:
        validation.check_upload_header(header, max_weights_bytes=100)
    assert caught.value.field == "header.files[0].size_bytes"


@pytest.mark.parametrize("user", ["", "ann", "Änne Ölçer 7", "日本", "a" * 64])
def test_a_user_is_any_short_printable_text(user):
    validation.check_generate(pb.GenerateRequest(prompt="Hi", user=user))


@pytest.mark.parametrize(
    "package",
    [
        "shop/mail",
        "shop/team/mail.v2:latest",
        "usb/Mail_Letters:1.0",
        "r/n@" + DIGEST,
        "r/" + "n" * 510,
    ],
)
def test_a_package_is_a_name_at_a_remote(package):
    validation.check_install(pb.InstallAdapterRequest(package=package))


@given(st.text(st.sampled_from("ab/.:@-_\\\0 "), max_size=30))
def test_a_package_that_passes_leads_to_no_other_place_T05(package):
    try:
        validation.check_install(pb.InstallAdapterRequest(package=package))
    except InvalidRequestError as error:
        assert error.field == "package"
        return
    assert "//" not in package
    assert not any(part.startswith(".") for part in package.split("/"))
    assert "\\" not in package
    assert "\0" not in package


@given(st.binary(max_size=400))
def test_no_bytes_that_parse_make_it_fail_otherwise(raw):
    checks = {
        pb.GenerateRequest: validation.check_generate,
        pb.ChatRequest: validation.check_chat,
        pb.SetAdapterAliasRequest: validation.check_set_alias,
        pb.ListAdaptersRequest: validation.check_list,
        pb.InstallAdapterRequest: validation.check_install,
        pb.AdapterUploadHeader: lambda header: validation.check_upload_header(header, 100),
    }
    for message_class, check in checks.items():
        try:
            message = message_class.FromString(raw)
        except Exception:
            continue
        try:
            check(message)
        except EdgeLoraError as error:
            assert error.field

"""What is said of an adapter."""

from __future__ import annotations

import json

from edgelora.cli.adapter_view import detail_rows, list_line
from edgelora.cli.messages import adapter_details, adapter_document
from edgelora.cli.output import print_table
from edgelora.v1.adapter_pb2 import (
    Adapter,
    AdapterAlias,
    AdapterCertificate,
    AdapterLineage,
    AdapterUsage,
    LoadStages,
    ServingForm,
)
from edgelora.v1.encoding_pb2 import ClassifierHead, Task
from edgelora.v1.gateway_service_pb2 import GetAdapterResponse


def shown(adapter: Adapter, *aliases: AdapterAlias) -> dict[str, str | None]:
    document = adapter_details(GetAdapterResponse(adapter=adapter, aliases=aliases))
    json.dumps(document, allow_nan=False)
    return dict(detail_rows(document))


def test_an_encoded_adapter_says_what_encoding_costs_and_how_it_was_used():
    task = {
        "before": 0.903,
        "after": 0.9,
        "tokens_right": 132,
        "tokens_lost": 3,
        "tokens_gained": 1,
        "divergence": {"positions": 199},
    }
    adapter = Adapter(
        digest="sha256:1",
        size_bytes=9_800_000,
        flash_bytes=2_000_000,
        is_pinned=True,
        certificate=AdapterCertificate(
            document=json.dumps(
                {"why_exact": "", "why_not_measured": "", "measurement": {"task": task}}
            ),
            form=ServingForm.SERVING_FORM_ENCODED_4,
            bits_per_parameter=4.52,
            mean_kl=0.0021,
            max_kl=0.05,
            top1_agreement=0.995,
            task_metric_before=0.903,
            task_metric_after=0.9,
        ),
        lineage=AdapterLineage(source="shop/mail@sha256:2", parent_digest="sha256:0"),
        usage=AdapterUsage(
            num_memory_hits=7,
            num_flash_hits=2,
            num_remote_hits=1,
            num_loads=3,
            num_warm_ups=2,
            num_wasted_warm_ups=1,
            flash_bytes_read=6_000_000,
            remote_bytes_read=2_000_000,
            last_load=LoadStages(fetch_s=0.0004, decode_s=0.0118),
        ),
    )
    rows = shown(adapter, AdapterAlias(name="mail", generation=3), AdapterAlias(name="a"))
    assert rows["aliases"] == "a (generation 0), mail (generation 3)"
    assert rows["state"] == "unspecified, pinned"
    form = "encoded at about 4.5 bits (4.52 a parameter, scales included)"
    assert rows["serving form"] == form
    assert rows["measured loss"] == (
        "mean KL 0.0021 nats, largest 0.05; same likeliest token 99.5 %"
    )
    assert rows["its own probe"] == (
        "132 of 199 tokens right before encoding, 130 after; whole answers 90.3 %, 90.0 % after"
    )
    assert rows["on flash"] == "no: 2.0 MB come from its remote at the next use"
    assert rows["source"] == "shop/mail@sha256:2"
    assert rows["replaced"] == "sha256:0"
    assert rows["requests found it"] == "in memory 7, on flash 2, at its remote 1"
    assert rows["loads"] == "3, of these 2 ahead of use, 1 of those for nothing"
    assert rows["last load"] == (
        "remote 0.0 ms, fetch 0.4 ms, check 0.0 ms, decode 11.8 ms, prove 0.0 ms"
    )
    assert rows["bytes moved"] == "6.0 MB from flash, 2.0 MB from its remote"


def test_a_loss_of_nothing_is_measured_and_an_unmeasured_one_is_not_nothing():
    certificate = AdapterCertificate(
        form=ServingForm.SERVING_FORM_ENCODED_8, mean_kl=0.0, max_kl=0.0, top1_agreement=1.0
    )
    rows = shown(Adapter(certificate=certificate))
    assert rows["measured loss"].startswith("mean KL 0 nats")
    unmeasured = AdapterCertificate(form=ServingForm.SERVING_FORM_ENCODED_8)
    assert shown(Adapter(certificate=unmeasured))["measured loss"] == "not measured"
    unmeasured.document = json.dumps({"why_not_measured": "the native core is not installed"})
    rows = shown(Adapter(certificate=unmeasured))
    assert rows["measured loss"] == "the native core is not installed"


def test_original_weights_lose_nothing_and_say_why_they_stay():
    certificate = AdapterCertificate(
        form=ServingForm.SERVING_FORM_EXACT, document=json.dumps({"why_exact": "the codec is off"})
    )
    rows = shown(Adapter(certificate=certificate, is_on_flash=True, flash_bytes=9_800_000))
    assert rows["serving form"] == "the original weights: the codec is off"
    assert "measured loss" not in rows
    assert rows["on flash"] == "9.8 MB"


def test_what_is_not_known_is_left_out():
    rows = shown(Adapter(digest="sha256:1"))
    assert rows["aliases"] is None
    assert rows["replaced"] is None
    assert "serving form" not in rows
    assert "loads" not in rows


def test_a_card_is_shown_prompt_by_prompt_and_can_not_steer_the_terminal(capsys):
    adapter = Adapter(digest="sha256:1", example_prompts=["Write to\nAnna", "\x9b2JTwo"])
    document = adapter_details(GetAdapterResponse(adapter=adapter))
    assert document["example_prompts"] == ["Write to\nAnna", "\x9b2JTwo"]
    rows = detail_rows(document)
    start = rows.index(("example prompts", "Write to Anna"))
    assert rows[start + 1] == ("", "\x9b2JTwo")
    print_table(("field", "value"), rows, "")
    assert "\x9b" not in capsys.readouterr().out


def test_a_version_is_listed_under_its_original():
    version = Adapter(digest="sha256:1", version_of_digest="sha256:" + "ab" * 32)
    assert shown(version)["lower-rank version of"] == "sha256:" + "ab" * 32
    assert list_line(adapter_document(version)).startswith("version of abababababab ")
    version.aliases.append("small")
    assert list_line(adapter_document(version)).startswith("small ")
    assert shown(Adapter(digest="sha256:1"))["lower-rank version of"] is None


def test_classifier_says_what_it_does_and_names_its_labels():
    head = ClassifierHead(labels=[f"label {number}" for number in range(30)])
    adapter = Adapter(digest="sha256:1", task=Task.TASK_ENCODE, head=head)
    rows = shown(adapter)
    assert rows["task"] == "classifies text"
    assert rows["labels (30)"] == ", ".join(head.labels[:20]) + " and 10 more"
    assert rows["out of scope"] == "can not be told"
    assert " classify " in list_line(adapter_document(adapter))
    embedder = Adapter(digest="sha256:2", task=Task.TASK_ENCODE)
    assert shown(embedder)["task"] == "embeds text"
    assert " embed " in list_line(adapter_document(embedder))
    assert shown(Adapter(digest="sha256:3"))["task"] == "generates text"

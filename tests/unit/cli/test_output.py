"""Tables, JSON and text from elsewhere."""

import json

import pytest
from rich.console import Console

from edgelora.cli import output
from edgelora.cli.demo_run import StreamResult
from edgelora.cli.demo_view import DemoView, print_results, results_document
from edgelora.cli.start_view import StartView
from edgelora.local_stack.supervisor import ServiceState


def result(**changes):
    values = {
        "tenant": "office",
        "adapter": "email",
        "digest": "sha256:" + "0" * 64,
        "prompt": "Write",
        "text": "Subject: Hello",
        "num_tokens": 41,
        "ttft_s": 0.25,
        "last_s": 2.25,
        "mean_batch_size": 3.2,
        "finish_reason": "stop",
    }
    return StreamResult(**values | changes)


def plain_console(width=120):
    return Console(width=width, highlight=False, markup=False, record=True)


def test_the_table_has_a_row_for_each_tenant_with_rates_and_share(capsys):
    console = plain_console()
    print_results(console, [result(), result(tenant="home", adapter="home", mean_batch_size=4.0)])
    lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert lines[0] == [
        "tenant",
        "adapter",
        "TTFT",
        "ms",
        "tokens/s",
        "tokens",
        "share",
        "of",
        "batch",
        "end",
    ]
    assert lines[1] == ["office", "email", "250", "20.0", "41", "31%", "stop"]
    assert lines[2] == ["home", "home", "250", "20.0", "41", "25%", "stop"]


def test_shares_of_the_batch_are_not_taken_for_parts_of_one_whole():
    console = plain_console()
    print_results(console, [result()])
    assert "need not add up to 100 %" in console.export_text()


def test_a_service_that_is_given_up_is_left_to_the_error_that_ends_the_command():
    console = plain_console()
    view = StartView(console)
    view.report("inference", ServiceState.RESTARTING, "was killed by signal 9")
    view.report("inference", ServiceState.GIVEN_UP, "ended with status 2")
    text = console.export_text()
    assert "inference was killed by signal 9: restarting" in text
    assert "status 2" not in text


def test_a_failed_stream_is_a_row_with_dashes_and_its_error(capsys):
    console = plain_console()
    failed = result(
        num_tokens=0,
        ttft_s=None,
        last_s=None,
        mean_batch_size=None,
        finish_reason=None,
        error="the worker is gone: start again",
    )
    print_results(console, [failed])
    text = console.export_text()
    assert ["office", "email", "-", "-", "0", "-", "failed"] in [
        line.split() for line in text.splitlines()
    ]
    assert "office/email failed: the worker is gone: start again" in text


def test_a_single_token_has_no_rate():
    assert result(num_tokens=1, last_s=0.25).tokens_per_s is None


def test_the_json_of_a_stream_holds_the_same_figures():
    (document,) = results_document([result()])
    json.dumps(document, allow_nan=False)
    assert document["ttft_ms"] == 250.0
    assert document["tokens_per_s"] == 20.0
    assert document["share_of_batch"] == 0.3125
    assert document["error"] is None


def test_lines_carry_their_tenant_where_there_is_no_terminal(capsys):
    console = output.output_console()
    view = DemoView(console)
    office, home = result(), result(tenant="home", adapter="home")
    view.preparing("office")
    view.started([office, home])
    for one, piece in (
        (office, "Dear "),
        (home, "{}\n"),
        (office, "Ann,\n\nsee"),
        (office, " you"),
    ):
        view.changed(one, piece)
    view.ended()
    assert capsys.readouterr().out.splitlines() == [
        "home/home | {}",
        "office/email | Dear Ann,",
        "office/email | see you",
    ]


def test_a_terminal_gets_a_panel_for_each_tenant():
    console = Console(width=120, height=40, force_terminal=True, record=True)
    view = DemoView(console)
    results = [result(tenant=name) for name in ("office", "kitchen", "school", "home")]
    view.started(results)
    view.changed(results[0], "x")
    view.ended()
    text = console.export_text()
    assert all(f"{one.tenant} · email" in text for one in results)
    assert text.count("Subject: Hello") >= 4


@pytest.mark.parametrize("width", [20, 40, 99, 100, 200])
def test_panels_fit_any_width_with_text_of_any_length(width):
    console = Console(width=width, height=60, force_terminal=True, record=True)
    view = DemoView(console)
    results = [result(text="word " * 500 + "\x1b[2Jend 🤗" * 3, prompt="p" * 300)]
    view.started(results)
    view.ended()
    assert "\x1b[2J" not in console.export_text(styles=True)


def test_control_characters_of_a_model_never_reach_the_terminal():
    assert output.printable("a\x1b[31mb\x07c\x9b2J\r\n\td\ud83d") == "a[31mbc2J\n\td"
    assert output.printable("héllo 日本 🤗") == "héllo 日本 🤗"


def test_json_is_readable_and_strict(capsys):
    output.print_json({"text": "日本"})
    assert capsys.readouterr().out == '{\n  "text": "日本"\n}\n'
    with pytest.raises(ValueError, match="Out of range"):
        output.print_json({"value": float("nan")})


def test_an_empty_table_says_so(capsys):
    output.print_table(("name",), [], "there is nothing")
    assert capsys.readouterr().out == "there is nothing\n"


def test_cells_are_not_cut_without_a_terminal(capsys):
    digest = "sha256:" + "0" * 64
    output.print_table(("digest", "text"), [(digest, "x" * 90)], "")
    out = capsys.readouterr().out
    assert digest in out
    assert "x" * 90 in out


@pytest.mark.parametrize("is_plain", [True, False])
def test_no_colour_is_honoured(monkeypatch, is_plain):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    if is_plain:
        monkeypatch.setenv("NO_COLOR", "1")
    console = output.output_console()
    with console.capture() as capture:
        console.print("x", style="red")
    assert ("\x1b[31m" in capture.get()) is not is_plain


HOSTILE = "a\x1b[2J\x9b2J\x7f\u202egpj\u2066\u2069 \u05d0\u200d\n\tb"


def test_text_from_elsewhere_steers_no_terminal():
    assert output.printable(HOSTILE) == "a[2J2Jgpj \u05d0\u200d\n\tb"


def test_neither_does_json_which_says_the_same(capsys):
    output.print_json({HOSTILE: [HOSTILE]})
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\x7f", "\u202e", "\u2066", "\u2069"} & set(printed)
    assert json.loads(printed) == {HOSTILE: [HOSTILE]}

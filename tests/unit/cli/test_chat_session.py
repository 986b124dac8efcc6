"""Turns of a conversation, and the choice of adapters."""

import pytest

from edgelora.cli.chat import routing_note
from edgelora.cli.chat_session import ChatSession, parse_adapters
from edgelora.cli.errors import CliError
from edgelora.generation import GenerationOptions
from edgelora.routed import RoutedAdapter, Routing


def session(system=None):
    return ChatSession(adapters={}, options=GenerationOptions(), system=system, user="")


def test_turns_are_remembered_in_order_after_the_system_message():
    talk = session("Be brief.")
    talk.remember("one", "1")
    assert talk.messages_with("two") == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "1"),
        ("user", "two"),
    ]


def test_a_turn_without_an_answer_leaves_no_trace():
    talk = session()
    talk.remember("stopped at once", "")
    assert talk.messages_with("next") == [("user", "next")]


def test_a_new_conversation_keeps_the_system_message():
    talk = session("Be brief.")
    talk.remember("one", "1")
    talk.forget()
    assert talk.messages_with("two") == [("system", "Be brief."), ("user", "two")]


def test_adapters_have_strength_1_unless_said_otherwise():
    assert parse_adapters(["email", "tutor=0.5", "home=0"]) == {
        "email": 1.0,
        "tutor": 0.5,
        "home": 0.0,
    }
    assert parse_adapters([]) == {}


@pytest.mark.parametrize(
    "word", ["=1", "email=", "email=x", "email=2.1", "email=-0.1", "email=nan", "email=inf", ""]
)
def test_a_strength_out_of_range_is_refused(word):
    with pytest.raises(CliError, match="strength from 0 to 2"):
        parse_adapters([word])


@pytest.mark.parametrize("words", [["a", "a"], ["a=0.5", "b", "a=0.5"]])
def test_an_adapter_that_comes_twice_is_refused_and_no_strength_is_lost(words):
    with pytest.raises(CliError, match=f"adapter {len(words)} was named before: give each once"):
        parse_adapters(words)


def test_auto_is_asked_for_without_a_strength():
    talk = session()
    talk.adapters = parse_adapters(["auto"])
    assert talk.selection == "auto"
    talk.adapters = parse_adapters(["email=0.5"])
    assert talk.selection == {"email": 0.5}


@pytest.mark.parametrize("words", [["auto=1"], ["auto=0.5"], ["auto", "email"], ["email", "auto"]])
def test_auto_stands_alone(words):
    with pytest.raises(CliError, match="auto leaves the choice to the node: give it alone"):
        parse_adapters(words)


def routing(adapters, base_share):
    return Routing(
        adapters=tuple(RoutedAdapter(digest=d, alias=a, share=s) for d, a, s in adapters),
        base_share=base_share,
        reason="best",
        decision_s=0.00132,
        num_candidates=3,
    )


@pytest.mark.parametrize(
    ("adapters", "base_share", "note"),
    [
        (
            [("sha256:" + "a" * 64, "email", 0.82)],
            0.18,
            "(auto: email 0.82, base 0.18, chosen in 1.3 ms)",
        ),
        (
            [("sha256:" + "a" * 64, "", 1.0)],
            0.0,
            "(auto: sha256:aaaaaaaaaaaa 1.00, chosen in 1.3 ms)",
        ),
        ([], 1.0, "(auto: base 1.00, chosen in 1.3 ms)"),
    ],
)
def test_one_plain_line_says_what_the_router_chose(adapters, base_share, note):
    assert routing_note(routing(adapters, base_share)) == note

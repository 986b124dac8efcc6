import json
import math

from services.gateway.dashboard.json_text import json_text


def test_what_is_no_number_is_unknown():
    document = {"a": math.nan, "b": [math.inf, 1.5], "c": ({"d": -math.inf},)}
    assert json.loads(json_text(document)) == {"a": None, "b": [None, 1.5], "c": [{"d": None}]}


def test_a_document_is_one_line():
    assert "\n" not in json_text({"text": "one\ntwo\r\u2028three"})

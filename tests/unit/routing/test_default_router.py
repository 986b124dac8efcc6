"""The router that ships, on the demo adapters' held-out data."""

import json
from importlib.resources import files

import numpy as np
import pytest

from edgelora.routing import DeviceState, Router
from edgelora.routing.router import DEFAULT_FILE
from tests.support.prepared_model import ROOT

NAMES = ("email", "home", "recipes", "tutor")
CALM = DeviceState(temperature=0.0, memory=0.0, battery=0.0)
PRESSED = DeviceState(temperature=0.0, memory=1.0, battery=0.0)


def texts_of(name):
    lines = (ROOT / "demo" / name / "data" / "test.jsonl").read_text().splitlines()
    return [json.loads(line)["messages"][-2]["content"] for line in lines]


@pytest.fixture(scope="module")
def router():
    return Router.default()


@pytest.fixture(scope="module")
def table(router):
    cards = [json.loads((ROOT / "demo" / name / "card.json").read_text()) for name in NAMES]
    return router.table([router.prototype(card["description"], card["examples"]) for card in cards])


def scores(router, table, text, device=CALM, resident=(True,) * 4):
    return router.scores(router.embed(text), table, device, resident)


def test_it_is_small():
    assert len((files("edgelora.routing") / DEFAULT_FILE).read_bytes()) < 1 << 20


@pytest.mark.parametrize("name", NAMES)
def test_texts_go_to_the_adapter_of_their_domain(router, table, name):
    chosen = [int(np.argmax(scores(router, table, text))) for text in texts_of(name)]
    assert np.mean([choice == NAMES.index(name) for choice in chosen]) >= 0.7


def test_loading_is_marked_down_and_more_so_under_pressure(router, table):
    marks = {
        device: np.mean(
            [
                scores(router, table, text, device)[:4]
                - scores(router, table, text, device, (False,) * 4)[:4]
                for name in NAMES
                for text in texts_of(name)[:20]
            ]
        )
        for device in (CALM, PRESSED)
    }
    assert 0 < marks[CALM] < marks[PRESSED]

"""A real Home Assistant that adds a server through its Ollama integration and talks to it.

Run by the Python of the environment `make home-assistant` prepares, never imported by a test:
`python home_assistant_node.py CONFIG_DIRECTORY`, with one JSON object on standard input: `url`,
`model`, `sentences`, `controls_home`. It prints one JSON object: `offered` (the models its form
lists), `entry` (title and state of the config entry), `turns` (speech, response type and whether
the kitchen light is on after each sentence).
"""

import asyncio
import json
import logging
import sys

from homeassistant import bootstrap, loader
from homeassistant.components import conversation
from homeassistant.config_entries import SOURCE_USER, ConfigEntries
from homeassistant.const import CONF_LLM_HASS_API
from homeassistant.core import Context, CoreState, HomeAssistant
from homeassistant.core_config import async_process_ha_core_config
from homeassistant.setup import async_setup_component

LIGHT = "light.kitchen_light"
SWITCH = "input_boolean.kitchen"
HOME = {
    "homeassistant": {},
    "input_boolean": {"kitchen": {"name": "Kitchen relay"}},
    "light": [
        {
            "platform": "template",
            "lights": {
                "kitchen_light": {
                    "friendly_name": "Kitchen Light",
                    "value_template": f"{{{{ is_state('{SWITCH}', 'on') }}}}",
                    **{
                        f"turn_{state}": {
                            "action": f"input_boolean.turn_{state}",
                            "target": {"entity_id": SWITCH},
                        }
                        for state in ("on", "off")
                    },
                }
            },
        }
    ],
    "conversation": {},
}


async def started_home(directory: str) -> HomeAssistant:
    """A home with one light; nothing is installed, downloaded or listened on."""
    hass = HomeAssistant(directory)
    hass.config.skip_pip = True
    loader.async_setup(hass)
    hass.config_entries = ConfigEntries(hass, HOME)
    await bootstrap.async_load_base_functionality(hass)
    await async_process_ha_core_config(hass, {})
    hass.set_state(CoreState.running)  # without the event that would open its web server
    for domain in HOME:
        if not await async_setup_component(hass, domain, HOME):
            raise SystemExit(f"the integration {domain} did not load")
    await hass.async_block_till_done()
    return hass


async def add_server(hass: HomeAssistant, url: str, model: str):
    """Goes through the forms a user fills in. Returns the models offered, and the entry."""
    flow = hass.config_entries.flow
    form = await flow.async_init("ollama", context={"source": SOURCE_USER})
    form = await flow.async_configure(form["flow_id"], {"url": url})
    if form.get("errors"):
        raise SystemExit(f"the form refused the server: {form['errors']}")
    (selector,) = form["data_schema"].schema.values()
    offered = [
        option["value"]
        for option in selector.config["options"]
        if option["label"].endswith("(downloaded)")
    ]
    result = await flow.async_configure(form["flow_id"], {"model": model})
    while result["type"] != "create_entry":
        if result["type"] == "abort":
            raise SystemExit(f"the flow ended with {result['reason']}")
        await hass.async_block_till_done()
        result = await flow.async_configure(form["flow_id"])
    await hass.async_block_till_done()
    return offered, result["result"]


async def let_control(hass: HomeAssistant, entry_id: str) -> None:
    """Fills in the options: the model may control the home through the Assist API."""
    form = await hass.config_entries.options.async_init(entry_id)
    await hass.config_entries.options.async_configure(
        form["flow_id"], {CONF_LLM_HASS_API: "assist", "num_ctx": 8192, "keep_alive": -1}
    )
    await hass.async_block_till_done()


async def main() -> None:
    """Does what standard input asks."""
    wanted = json.load(sys.stdin)
    hass = await started_home(sys.argv[1])
    offered, entry = await add_server(hass, wanted["url"], wanted["model"])
    if wanted["controls_home"]:
        await let_control(hass, entry.entry_id)
    turns = []
    conversation_id = None
    for sentence in wanted["sentences"]:
        said = await conversation.async_converse(
            hass,
            text=sentence,
            conversation_id=conversation_id,
            context=Context(),
            language="en",
            agent_id=entry.entry_id,
        )
        await hass.async_block_till_done()
        conversation_id = said.conversation_id
        answer = said.as_dict()["response"]
        turns.append(
            {
                "speech": answer["speech"].get("plain", {}).get("speech", ""),
                "type": answer["response_type"],
                "is_light_on": hass.states.get(LIGHT).state == "on",
            }
        )
    document = {
        "offered": offered,
        "entry": {"title": entry.title, "state": entry.state.value},
        "turns": turns,
    }
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    await hass.async_stop(force=True)


logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
asyncio.run(main())

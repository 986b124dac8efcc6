// The dashboard: takes the stream's documents, hands each panel what it shows.
import { byId } from "./dom.js";
import { clock, count, perSecond } from "./format.js";
import { follow } from "./stream.js";
import { AdapterNames } from "./names.js";
import { EnginePanel } from "./engine_panel.js";
import { ResidencyPanel } from "./residency_panel.js";
import { RequestsPanel } from "./requests_panel.js";
import { DevicePanel } from "./device_panel.js";
import { PressurePanel } from "./pressure_panel.js";

const SPAN_S = 600;
const STATES = { connecting: "connecting", live: "live", lost: "connection lost, trying again" };

const names = new AdapterNames();
const panels = [
  new EnginePanel(names), new ResidencyPanel(names), new RequestsPanel(),
  new DevicePanel(), new PressurePanel(),
];
let points = [];
let library = null;
let shownAt = null;

follow({
  history(older) {
    points = older;
  },
  library(document) {
    library = document;
    names.learn(document);
  },
  node(node) {
    points.push(node.point);
    points = points.filter(({ at }) => node.at - at <= SPAN_S);
    shownAt = node.at;
    for (const panel of panels) panel.show(node, points, library);
    showServices(node);
  },
}, showState);

function showState(state) {
  document.body.dataset.connection = state;
  byId("connection").textContent = STATES[state];
  const lost = byId("lost");
  lost.hidden = state !== "lost";
  lost.textContent = state !== "lost" ? ""
    : `Connection lost, trying again. ${shownAt ? `What is shown below is from ${clock(shownAt)}.` : ""}`;
}

function showServices({ services, model, encoder }) {
  const away = Object.entries(services).filter(([, isReady]) => !isReady).map(([name]) => name);
  byId("services").textContent = away.length
    ? `Not ready: ${away.join(", ").replaceAll("_", " ")}` : "All services ready";
  byId("services").dataset.level = away.length ? "critical" : "normal";
  byId("model").textContent = model ? `${model.name}, computed by ${model.backend}`
    : "inference" in services ? "model unknown" : "";
  byId("encoder").hidden = !encoder;
  byId("encoder").textContent = encoder
    ? `${encoder.name}: ${perSecond(encoder.texts_per_s)} texts, ${count(encoder.num_adapters)} of `
      + `${count(encoder.num_adapter_slots)} adapter slots in use` : "";
}

// The device's pressure: its state with the reasons, what is limited, and how it came about.
import { byId, el, fillRows } from "./dom.js";
import { celsius, clock, percent, seconds } from "./format.js";

const FORMATS = { temperature: celsius, memory: percent, battery: percent };

export class PressurePanel {
  show({ pressure, pressure_changes, restrictions }) {
    fillRows(byId("pressures"), Object.entries(pressure).map(([name, state]) => [
      name, badge(state.level), FORMATS[name](state.reading), seconds(state.held),
      state.explanation || "no reason given"]), "Unknown.");
    byId("restrictions").replaceChildren(...(restrictions === null
      ? [el("li", {}, "Unknown: the scheduler does not answer.")]
      : restrictions.length
        ? restrictions.map(({ explanation }) => el("li", {}, explanation))
        : [el("li", {}, "Nothing is limited.")]));
    fillRows(byId("pressure-changes"), pressure_changes.map((change) => [
      clock(change.at), change.dimension, badge(change.level), change.explanation || "no reason given"]),
      "No change yet.");
  }
}

function badge(level) {
  return el("span", { class: "badge", "data-level": level }, level);
}

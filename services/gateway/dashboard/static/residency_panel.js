// Where every adapter is: in a slot, on flash, or only at its remote; and how often each place is hit.
import { byId, el } from "./dom.js";
import { bytes, count, percent } from "./format.js";
import { Chart } from "./chart.js";

const RATE_SPAN_S = 60;
const MAX_TILES = 256;
const TIERS = ["in a slot", "on flash", "at its remote"];
const PLACES = { slot: "in a slot", loading: "coming into a slot", flash: "on flash", remote: "remote only" };

export class ResidencyPanel {
  constructor(names) {
    this.names = names;
    this.hits = new Chart(byId("hits-chart"), {
      title: "Where requests found their adapter, last minute", format: percent, least: 1 });
  }

  show({ engine, tiers }, points, library) {
    this.#showHits(points);
    this.#showTiles(engine, library);
    byId("tier-memory").textContent = used(tiers?.memory_bytes, tiers?.memory_budget_bytes);
    byId("tier-flash").textContent = used(tiers?.flash_bytes, tiers?.flash_budget_bytes);
    byId("tier-loads").textContent = count(tiers?.num_loads);
    byId("tier-warm-ups").textContent = tiers
      ? `${count(tiers.num_warm_ups)}, ${count(tiers.num_wasted_warm_ups)} for nothing` : "unknown";
    byId("tier-waits").textContent = count(tiers?.num_slot_waits);
  }

  #showHits(points) {
    const times = points.map(({ at }) => at);
    const series = TIERS.map((name, tier) => ({ name, colour: tier, values: [] }));
    const prefix = { name: "prompt tokens already computed", colour: 3, values: [] };
    let from = 0;
    points.forEach((point, at) => {
      while (point.at - points[from].at > RATE_SPAN_S) from += 1;
      const hits = difference(points[from].hits, point.hits);
      const all = hits ? hits[0] + hits[1] + hits[2] : 0;
      series.forEach(({ values }, tier) => values.push(all ? hits[tier] / all : null));
      const tokens = difference(points[from].prefix, point.prefix);
      prefix.values.push(tokens?.[1] ? tokens[0] / tokens[1] : null);
    });
    this.hits.draw(times, [...series, prefix]);
    const newest = points.at(-1)?.hits;
    const total = newest ? newest[0] + newest[1] + newest[2] : 0;
    TIERS.forEach((_, tier) => {
      byId(`hit-${tier}`).textContent = total ? percent(newest[tier] / total) : "none yet";
      if (!newest) byId(`hit-${tier}`).textContent = "unknown";
    });
  }

  #showTiles(engine, library) {
    const slots = new Map((engine?.slots ?? []).map((slot) => [slot.digest, slot]));
    const entries = [...(library?.entries ?? [])];
    const listed = new Set(entries.map(({ digest }) => digest));
    for (const digest of slots.keys()) {
      if (!listed.has(digest)) entries.unshift({ digest, names: [], is_on_flash: null });
    }
    const shown = entries.slice(0, MAX_TILES);
    byId("tiles").replaceChildren(...shown.map((entry) => tile(this.names.of(entry.digest), entry,
      slots.get(entry.digest), engine)));
    // A tile is one content; of several tenants with the same each counts.
    const numShown = shown.reduce((sum, { num_tenants: owners }) => sum + (owners ?? 0), 0);
    const numMore = Math.max(0, (library?.num_adapters ?? 0) - numShown);
    const inSlots = engine ? `${slots.size} of ${engine.num_adapter_slots} slots in use` : "slots unknown";
    byId("tiles-note").textContent = library
      ? `${count(library.num_adapters)} adapters; ${inSlots}${numMore ? `; ${count(numMore)} less used ones are not shown` : ""}.`
      : `The library is unknown: the adapter store does not answer; ${inSlots}.`;
  }
}

function tile(name, entry, slot, engine) {
  const place = placeOf(entry, slot, engine);
  const facts = [
    PLACES[place] ?? "unknown",
    slot?.num_references ? `in use by ${slot.num_references}` : null,
    entry.is_pinned ? "pinned" : null,
    entry.rank ? `rank ${entry.rank}` : null,
    slot ? bytes(slot.bytes) : null,
    entry.is_refused ? "refused by the worker" : null,
  ];
  return el("li", { class: "tile", "data-place": place, "data-in-use": slot?.num_references ? "" : false },
    el("strong", {}, name), el("span", {}, facts.filter(Boolean).join(" · ")));
}

function placeOf(entry, slot, engine) {
  if (slot) return slot.is_loading ? "loading" : "slot";
  if (!engine || entry.is_on_flash === null) return "unknown";
  return entry.is_on_flash ? "flash" : "remote";
}

function used(now, most) {
  return most ? `${bytes(now)} of ${bytes(most)}` : bytes(now);
}

/** Null where either is unknown, or the service has started again in between. */
function difference(before, now) {
  if (!before || !now) return null;
  const grown = now.map((value, at) => value - before[at]);
  return grown.every((value) => value >= 0) ? grown : null;
}

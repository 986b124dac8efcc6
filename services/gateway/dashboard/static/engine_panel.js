// Who uses the engine: its time and its tokens, for each adapter and the base model.
import { byId, fillRows } from "./dom.js";
import { count, percent, perSecond } from "./format.js";
import { Chart, Colours } from "./chart.js";
import { BASE, REST } from "./names.js";

const MAX_AREAS = 8;

export class EnginePanel {
  constructor(names) {
    this.names = names;
    this.colours = new Colours();
    this.colours.of(BASE);
    this.share = new Chart(byId("share-chart"), {
      title: "Engine time of each adapter", format: percent, least: 0.1, stacked: true });
    this.tokens = new Chart(byId("tokens-chart"), {
      title: "Output tokens a second of each adapter", format: perSecond, least: 10, stacked: true });
  }

  show({ use, engine, model }, points) {
    const times = points.map(({ at }) => at);
    const digests = busiest(points);
    const series = (index) => digests.map((digest) => ({
      name: this.names.of(digest),
      colour: this.colours.of(digest),
      values: points.map(({ adapters }) => (adapters ? adapters[digest]?.[index] ?? 0 : null)),
    }));
    this.share.draw(times, withRest(series(0), points, ({ share }) => share, this.colours));
    this.tokens.draw(times,
      withRest(series(1), points, ({ tokens_per_s }) => tokens_per_s, this.colours));
    byId("share-unit").textContent = /cuda|gpu/.test(model?.backend ?? "") ? "GPU share" : "CPU share";
    fillRows(byId("shares"), (use?.adapters ?? []).map((adapter) => [
      this.names.of(adapter.digest), percent(adapter.share), perSecond(adapter.tokens_per_s),
      perSecond(adapter.prompt_tokens_per_s)]),
      use ? "Nothing has run in the last seconds." : "Unknown: the worker does not answer.");
    byId("engine-share").textContent = percent(use?.share);
    byId("engine-tokens").textContent = perSecond(use?.tokens_per_s);
    byId("engine-prompt-tokens").textContent = perSecond(use?.prompt_tokens_per_s);
    byId("engine-running").textContent = engine
      ? `${engine.num_running} of ${engine.max_num_seqs}` : "unknown";
    byId("engine-kv").textContent = engine
      ? percent(1 - engine.num_free_kv_blocks / engine.num_kv_blocks) : "unknown";
    byId("engine-sessions").textContent = engine
      ? `${count(engine.num_sessions)} (${count(engine.num_session_tokens)} tokens)` : "unknown";
  }
}

/** Digests by what they used of the time shown, the base model first, the rest left out. */
function busiest(points) {
  const totals = new Map();
  for (const { adapters } of points) {
    for (const [digest, [share]] of Object.entries(adapters ?? {})) {
      if (digest !== REST) totals.set(digest, (totals.get(digest) ?? 0) + share);
    }
  }
  const ordered = [...totals].sort((a, b) => b[1] - a[1]).map(([digest]) => digest);
  const kept = ordered.slice(0, MAX_AREAS - 1);
  return [...kept].sort((a, b) => (b === BASE) - (a === BASE));
}

/** Adds what the engine did beyond the series, where there is any. */
function withRest(series, points, total, colours) {
  const rest = points.map((point, at) => {
    const whole = total(point);
    if (whole === null) return null;
    const left = whole - series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0);
    return left > 0.02 * whole ? left : 0;
  });
  if (!rest.some((value) => value > 0)) return series;
  return [...series, { name: "other adapters", colour: colours.of(REST), values: rest }];
}

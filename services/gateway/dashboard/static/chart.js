// Small charts over time in SVG: lines or stacked areas, with a title, a legend and a table.
import { el, svg } from "./dom.js";
import { clock, seconds } from "./format.js";

const LONGEST_S = 600;
const SHORTEST_S = 60;
const HEIGHT = 170;
const EDGE = { left: 56, right: 10, top: 8, bottom: 22 };
const TABLE_ROWS = 10;
const NUM_COLOURS = 8;

export class Chart {
  /** `format` writes a value with its unit; `least` is the smallest top of the value axis. */
  constructor(place, { title, format, least, stacked = false }) {
    Object.assign(this, { format, least, stacked });
    this.plot = el("div", { class: "plot" });
    this.legend = el("ul", { class: "legend" });
    this.body = el("tbody");
    this.head = el("tr");
    this.table = el("details", {}, el("summary", {}, "As a table"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, table` },
        el("table", {}, el("thead", {}, this.head), this.body)));
    this.title = title;
    place.append(el("figure", { class: "chart" },
      el("figcaption", {}, title), this.plot, this.legend, this.table));
    this.table.addEventListener("toggle", () => this.#redraw());
    new ResizeObserver(() => this.#redraw()).observe(this.plot);
  }

  /** `times`: unix seconds; `series`: [{name, colour, values}], a value of null is a gap. */
  draw(times, series) {
    this.data = { times, series };
    this.#redraw();
  }

  #redraw() {
    const width = this.plot.clientWidth;
    if (!this.data || width < 100) return;
    const { times, series } = this.data;
    const newest = series.map(({ name, values }) => `${name} ${this.format(values.at(-1))}`);
    const summary = `${this.title}. ${newest.join(", ") || "Nothing yet"}.`;
    this.plot.replaceChildren(this.#drawing(width, times, series, summary));
    this.legend.replaceChildren(...series.map(({ name, colour, values }) =>
      el("li", {}, swatch(colour), el("span", {}, name), " ",
        el("strong", {}, this.format(values.at(-1))))));
    if (this.table.open) this.#fillTable(times, series);
  }

  #drawing(width, times, series, summary) {
    const end = times.at(-1) ?? 0;
    const span = Math.min(LONGEST_S, Math.max(SHORTEST_S, end - (times[0] ?? 0)));
    const layers = this.stacked ? stacked(series) : series.map(({ values }) => ({ top: values }));
    const highest = Math.max(this.least, ...layers.flatMap(({ top }) => top.filter(isKnown)));
    const step = niceStep(highest / 3);
    const most = Math.ceil(highest / step - 1e-9) * step;
    const x = (time) => EDGE.left + (1 - (end - time) / span) * (width - EDGE.left - EDGE.right);
    const y = (value) => HEIGHT - EDGE.bottom - (value / most) * (HEIGHT - EDGE.top - EDGE.bottom);
    const drawing = svg("svg", { role: "img", "aria-label": summary, width, height: HEIGHT,
      viewBox: `0 0 ${width} ${HEIGHT}` });
    for (let value = 0; value <= most + step / 2; value += step) {
      drawing.append(
        svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
        svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)));
    }
    for (const [share, anchor] of [[1, "start"], [0.5, "middle"], [0, "end"]]) {
      drawing.append(svg("text", { x: x(end - share * span), y: HEIGHT - 6, "text-anchor": anchor },
        share ? `−${seconds(share * span)}` : "now"));
    }
    layers.forEach(({ top, bottom }, index) => {
      const colour = `series-${series[index].colour}`;
      for (const run of runs(times, top, end - span)) {
        const above = run.map((at) => `${x(times[at]).toFixed(1)},${y(top[at]).toFixed(1)}`);
        if (bottom) {
          const below = run.map((at) => `${x(times[at]).toFixed(1)},${y(bottom[at]).toFixed(1)}`);
          drawing.append(svg("polygon", { class: `area ${colour}`,
            points: [...above, ...below.reverse()].join(" ") }));
        } else if (above.length === 1) {
          const [cx, cy] = above[0].split(",");
          drawing.append(svg("circle", { class: `dot ${colour}`, cx, cy, r: 2 }));
        } else {
          drawing.append(svg("polyline", { class: `line ${colour}`, points: above.join(" ") }));
        }
      }
    });
    return drawing;
  }

  #fillTable(times, series) {
    this.head.replaceChildren(el("th", { scope: "col" }, "Time"),
      ...series.map(({ name }) => el("th", { scope: "col" }, name)));
    const rows = [];
    for (let at = times.length - 1; at >= 0 && rows.length < TABLE_ROWS; at -= 1) {
      rows.push(el("tr", {}, el("th", { scope: "row" }, clock(times[at])),
        ...series.map(({ values }) => el("td", {}, this.format(values[at])))));
    }
    this.body.replaceChildren(...rows);
  }
}

/** The mark of a series beside its name; its shape tells lines apart without colour. */
export function swatch(colour) {
  return svg("svg", { class: "swatch", width: 18, height: 10, "aria-hidden": "true" },
    svg("line", { class: `line series-${colour}`, x1: 0, x2: 18, y1: 5, y2: 5 }));
}

/** The same colour for the same key, as long as the page is open. */
export class Colours {
  #given = new Map();

  of(key) {
    if (!this.#given.has(key)) this.#given.set(key, this.#given.size % NUM_COLOURS);
    return this.#given.get(key);
  }
}

function stacked(series) {
  let bottom = series[0]?.values.map((value) => (isKnown(value) ? 0 : null)) ?? [];
  return series.map(({ values }) => {
    const top = values.map((value, at) => (isKnown(value) && isKnown(bottom[at]) ? bottom[at] + value : null));
    const layer = { top, bottom };
    bottom = top;
    return layer;
  });
}

/** Indices of neighbouring known values within the span. */
function runs(times, values, start) {
  const found = [];
  let run = [];
  values.forEach((value, at) => {
    const isIn = isKnown(value) && times[at] >= start;
    if (isIn) run.push(at);
    if ((!isIn || at === values.length - 1) && run.length) {
      found.push(run);
      run = [];
    }
  });
  return found;
}

export function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
}

function isKnown(value) {
  return value !== null && value !== undefined;
}

// Temperature against frequency: each look a dot, older ones paler, the newest marked.
import { el, svg } from "./dom.js";
import { celsius, clock, hertz } from "./format.js";
import { niceStep } from "./chart.js";

const HEIGHT = 200;
const EDGE = { left: 70, right: 16, top: 12, bottom: 36 };
const MAX_DOTS = 300;
const TABLE_ROWS = 10;
const TITLE = "Processor: frequency at each temperature";

export class HeatChart {
  constructor(place) {
    this.plot = el("div", { class: "plot" });
    this.note = el("p", { class: "note" });
    this.body = el("tbody");
    this.table = el("details", {}, el("summary", {}, "As a table"), el("table", {},
      el("thead", {}, el("tr", {}, ...["Time", "Temperature", "Frequency"].map((name) =>
        el("th", { scope: "col" }, name)))), this.body));
    place.append(el("figure", { class: "chart" },
      el("figcaption", {}, TITLE), this.plot, this.note, this.table));
    this.table.addEventListener("toggle", () => this.#redraw());
    new ResizeObserver(() => this.#redraw()).observe(this.plot);
  }

  draw(points) {
    this.points = points
      .filter(({ temperature, frequency }) => temperature !== null && frequency !== null)
      .slice(-MAX_DOTS);
    this.#redraw();
  }

  #redraw() {
    const width = this.plot.clientWidth;
    if (!this.points || width < 100) return;
    const last = this.points.at(-1);
    this.note.textContent = last
      ? `Now ${celsius(last.temperature)} at ${hertz(last.frequency)}.`
      : "Unknown: no sensor tells both temperature and frequency.";
    this.plot.replaceChildren(...(last ? [this.#drawing(width)] : []));
    if (this.table.open) {
      this.body.replaceChildren(...this.points.slice(-TABLE_ROWS).reverse().map((point) =>
        el("tr", {}, el("th", { scope: "row" }, clock(point.at)),
          el("td", {}, celsius(point.temperature)), el("td", {}, hertz(point.frequency)))));
    }
  }

  #drawing(width) {
    const heat = axis(this.points.map((point) => point.temperature), 10);
    const speed = axis(this.points.map((point) => point.frequency), 5e8);
    const x = (value) => EDGE.left
      + ((value - heat.from) / (heat.to - heat.from)) * (width - EDGE.left - EDGE.right);
    const y = (value) => HEIGHT - EDGE.bottom
      - ((value - speed.from) / (speed.to - speed.from)) * (HEIGHT - EDGE.top - EDGE.bottom);
    const drawing = svg("svg", { role: "img", "aria-label": `${TITLE}. ${this.note.textContent}`,
      width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` });
    for (const value of speed.ticks) {
      drawing.append(
        svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
        svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, hertz(value)));
    }
    for (const value of heat.ticks) {
      drawing.append(svg("text", { x: x(value), y: HEIGHT - 20, "text-anchor": "middle" },
        `${value} °C`));
    }
    this.points.forEach((point, at) => {
      const age = (at + 1) / this.points.length;
      drawing.append(svg("circle", { class: "dot series-4", cx: x(point.temperature),
        cy: y(point.frequency), r: 3, "fill-opacity": (0.2 + 0.5 * age).toFixed(2) }));
    });
    const last = this.points.at(-1);
    drawing.append(svg("circle", { class: "ring series-4", cx: x(last.temperature),
      cy: y(last.frequency), r: 6 }));
    return drawing;
  }
}

function axis(values, least) {
  const low = Math.min(...values);
  const high = Math.max(...values, low + least);
  const step = niceStep((high - low) / 3);
  const from = Math.floor(low / step) * step;
  const to = Math.ceil(high / step) * step;
  const ticks = [];
  for (let value = from; value <= to + step / 2; value += step) ticks.push(value);
  return { from, to, ticks };
}

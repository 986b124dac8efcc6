// Builds elements. Everything from elsewhere becomes text, never markup.

const LONG_CHARS = 30;

export function el(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Fills a table's body: `rows` of cells; the first cell of each names the row. */
export function fillRows(body, rows, empty) {
  const width = body.closest("table").tHead.rows[0].cells.length;
  const made = rows.map((cells) =>
    el("tr", {}, ...cells.map((cell, index) => (index === 0
      ? el("th", { scope: "row" }, cell)
      : el("td", { class: cell.length > LONG_CHARS ? "long" : undefined }, cell)))));
  if (!made.length) made.push(el("tr", {}, el("td", { colspan: width, class: "empty" }, empty)));
  body.replaceChildren(...made);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

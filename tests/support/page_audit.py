"""What must hold on every page, measured in the browser."""

_CONTRAST = """
const parse = (colour) => {
  const canvas = parse.canvas ??= document.createElement("canvas");
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
};
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => {
    c /= 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const ratio = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  if (!element.checkVisibility() || element.matches("option, :disabled, noscript")) continue;
  const style = getComputedStyle(element);
  const hasText = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const kind = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
  const name = `${kind} ${element.textContent.trim().slice(0, 30)}`;
  if (hasText || element.matches("input, select, textarea")) {
    const isDrawn = element.namespaceURI.endsWith("svg");
    const r = ratio(parse(isDrawn ? style.fill : style.color), ground(element));
    if (r < 4.5) found.push(`${name}: ${r.toFixed(2)}`);
  }
  if (element.matches(".line, .dot, .area")) {
    const r = ratio(parse(element.matches(".line") ? style.stroke : style.fill), ground(element));
    if (r < 3) found.push(`${name}: mark ${r.toFixed(2)}`);
  }
}
return found;
"""
_UNNAMED = """
const found = [];
const all = "input, select, textarea, button, a, svg, [tabindex], section";
for (const element of document.querySelectorAll(all)) {
  if (element.closest("[aria-hidden]") || element.matches("main")) continue;
  const labels = [...(element.labels ?? [])].map((label) => label.textContent).join("");
  const named = element.getAttribute("aria-labelledby");
  const name = element.getAttribute("aria-label") || labels
    || (named && document.getElementById(named)?.textContent) || element.textContent;
  if (!name.trim()) found.push(element.outerHTML.slice(0, 120));
}
return found;
"""
_TOO_WIDE = """
const width = document.documentElement.clientWidth;
const found = [...document.querySelectorAll("body *")].filter((element) =>
  element.checkVisibility() && !element.closest(".scroll, .visually-hidden, .skip, svg")
  && element.getBoundingClientRect().right > width + 1);
return [document.documentElement.scrollWidth - width, found.map((e) => e.outerHTML.slice(0, 120))];
"""
_FOCUS = """
const element = document.activeElement;
const style = getComputedStyle(element);
const isSeen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
return [element.id || element.tagName, isSeen];
"""


def low_contrast(browser):
    """Texts below 4.5:1 and marks below 3:1 against what is behind them (WCAG 2.2 AA)."""
    return browser.script(_CONTRAST)


def without_name(browser):
    """Controls, pictures and regions that assistive technology could not name."""
    return browser.script(_UNNAMED)


def too_wide(browser):
    """How far the page scrolls sideways, and what sticks out."""
    return browser.script(_TOO_WIDE)


def focus(browser):
    """What has the focus, and whether one can see that."""
    return browser.script(_FOCUS)

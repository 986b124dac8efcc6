// Numbers with their units. What is not known is said so, never shown as 0.

export const UNKNOWN = "unknown";

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const formatted = (write) => (value) => (known(value) ? write(value) : UNKNOWN);

export const count = formatted((value) => value.toLocaleString("en"));
export const decimal = formatted((value) => value.toFixed(value < 10 ? 1 : 0));
export const percent = formatted((value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);
export const perSecond = formatted((value) => `${value.toFixed(value < 10 ? 1 : 0)} /s`);
export const celsius = formatted((value) => `${value.toFixed(1)} °C`);
export const hertz = formatted((value) => `${(value / 1e9).toFixed(2)} GHz`);
export const watts = formatted((value) => `${value.toFixed(1)} W`);
export const cores = formatted((value) => `${value.toFixed(2)} cores`);

export const bytes = formatted((value) => {
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} GB`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} MB`;
  return `${(value / 1e3).toFixed(0)} kB`;
});

export const seconds = formatted((value) => {
  if (value < 1) return `${(1000 * value).toFixed(value < 0.1 ? 1 : 0)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 7200) return `${(value / 60).toFixed(0)} min`;
  return `${(value / 3600).toFixed(1)} h`;
});

export const growth = formatted((value) =>
  `${value < 0 ? "−" : "+"}${(Math.abs(value) / 1e6).toFixed(1)} MB/h`);

export const clock = formatted((value) =>
  new Date(1000 * value).toLocaleTimeString("en-GB"));

export function words(name) {
  return name.toLowerCase().replaceAll("_", " ");
}

export function shortDigest(digest) {
  return digest.length > 20 ? `${digest.slice(0, 15)}…` : digest;
}

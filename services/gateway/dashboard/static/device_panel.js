// The device: heat and frequency, memory of each process, battery.
import { byId, el, fillRows } from "./dom.js";
import { bytes, celsius, cores, growth, hertz, percent, watts } from "./format.js";
import { Chart, Colours } from "./chart.js";
import { HeatChart } from "./scatter.js";

export class DevicePanel {
  constructor() {
    this.colours = new Colours();
    this.heat = new HeatChart(byId("heat-chart"));
    this.memory = new Chart(byId("memory-chart"), {
      title: "Memory of each process", format: bytes, least: 1e8 });
    this.battery = new Chart(byId("battery-chart"), {
      title: "Battery charge", format: percent, least: 1 });
  }

  show({ device }, points) {
    const times = points.map(({ at }) => at);
    this.heat.draw(points);
    byId("temperature").textContent = celsius(device?.temperature);
    byId("frequency").textContent = device?.max_frequency
      ? `${hertz(device.frequency)} of ${hertz(device.max_frequency)}` : hertz(device?.frequency);
    byId("utilisation").textContent = percent(device?.utilisation);
    byId("free-memory").textContent = device?.memory_total
      ? `${bytes(device.memory_available)} of ${bytes(device.memory_total)}` : bytes(device?.memory_available);
    byId("gpus").replaceChildren(...(device?.gpus ?? []).map((gpu) => el("li", {},
      `${gpu.name}: ${percent(gpu.utilisation)} in use, ${celsius(gpu.temperature)}, `
      + `${bytes(gpu.memory_used)} of ${bytes(gpu.memory_total)}, ${watts(gpu.power)}`)));
    this.#showProcesses(device, times, points);
    const battery = device?.battery;
    byId("battery").textContent = battery
      ? `${percent(battery.charge)}, ${battery.state}, ${watts(battery.power)}`
      : "unknown: no battery, or none that tells";
    const charges = points.map((point) => point.battery ?? null);
    this.battery.draw(times, charges.some((charge) => charge !== null)
      ? [{ name: "charge", colour: 2, values: charges }] : []);
  }

  #showProcesses(device, times, points) {
    const services = [...new Set(points.flatMap(({ memory }) => Object.keys(memory ?? {})))];
    this.memory.draw(times, services.map((name) => ({
      name: name.replaceAll("_", " "), colour: this.colours.of(name),
      values: points.map(({ memory }) => memory?.[name] ?? null) })));
    fillRows(byId("processes"), (device?.processes ?? []).map((process) => [
      process.service.replaceAll("_", " "), bytes(process.bytes), cores(process.cpu_cores),
      growth(process.growth_per_hour), verdict(process)]),
      device ? "Unknown: no process is followed." : "Unknown: the monitor does not answer.");
  }
}

function verdict({ growth_per_hour, is_growing }) {
  if (is_growing) return el("span", { class: "badge", "data-level": "critical" }, "grows: a leak?");
  if (growth_per_hour === null) return "not yet known";
  return el("span", { class: "badge", "data-level": "normal" }, "steady");
}

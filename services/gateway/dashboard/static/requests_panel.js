// What waits and runs, how long people waited, and who got no answer.
import { byId, fillRows } from "./dom.js";
import { clock, count, seconds, words } from "./format.js";
import { Chart } from "./chart.js";

const CLASSES = ["interactive", "background", "batch"];

export class RequestsPanel {
  constructor() {
    this.queues = new Chart(byId("queue-chart"), {
      title: "Requests that wait and run", format: count, least: 3 });
    this.waits = new Chart(byId("latency-chart"), {
      title: "Time to the first token, p95", format: seconds, least: 0.1 });
  }

  show({ queues, latency, refusals }, points) {
    const times = points.map(({ at }) => at);
    this.queues.draw(times, CLASSES.flatMap((name, index) => ["waiting", "running"].map((what, at) => ({
      name: `${name} ${what}`, colour: 2 * index + at,
      values: points.map((point) => point.queues?.[name]?.[at] ?? null) }))));
    const waits = CLASSES.map((name, index) => ({
      name, colour: 2 * index,
      values: points.map(({ first_token_p95 }) => first_token_p95[name] ?? null) }));
    this.waits.draw(times, waits.filter(({ values }) => values.some((value) => value !== null)));
    fillRows(byId("queues"), (queues ?? []).map((queue) =>
      [queue.class, count(queue.num_waiting), count(queue.num_running)]),
      "Unknown: the scheduler does not answer.");
    fillRows(byId("latencies"), CLASSES.filter((name) => latency[name]).flatMap((name) => [
      latencyRow(`${name}, first token`, latency[name].first_token),
      latencyRow(`${name}, each later token`, latency[name].output_token)]),
      "Nothing has ended in the last 10 minutes.");
    fillRows(byId("refusals"), refusals.map((refusal) => [
      clock(refusal.at), refusal.tenant, refusal.class, words(refusal.reason),
      refusal.rule ? words(refusal.rule) : "none", refusal.retry_after ? seconds(refusal.retry_after) : "none"]),
      "None.");
  }
}

function latencyRow(name, values) {
  return [name, seconds(values?.p50), seconds(values?.p95), seconds(values?.p99),
    count(values?.num_values ?? 0)];
}

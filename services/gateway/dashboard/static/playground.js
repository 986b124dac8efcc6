// The playground: a tenant's key, an adapter, a prompt, and one or two answers.
import { byId, el } from "./dom.js";
import { ApiError, listModels } from "./generation.js";
import { AnswerPane } from "./answer_pane.js";

const panes = [new AnswerPane("A", 1), new AnswerPane("B", 0)];
let key = null; // only here: leaving the page forgets it
let models = [];
let abort = null;

byId("answers").append(...panes.map(({ element }) => element));
showPanes();

byId("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = byId("tenant-key").value.trim();
  tell(null);
  try {
    models = await listModels(given);
  } catch (error) {
    byId("request").disabled = true;
    tell(error);
    return;
  }
  key = given;
  byId("adapter").replaceChildren(...models.map((model) =>
    el("option", { value: model.id }, model.parent ? model.id : `${model.id} (base model)`)));
  const adapter = models.find(hasStrength);
  if (adapter) byId("adapter").value = adapter.id;
  byId("request").disabled = false;
  byId("key-note").textContent = `Adapters of this tenant: ${models.filter(hasStrength).length}.`;
  showStrengths();
  byId("adapter").focus();
});

byId("adapter").addEventListener("change", showStrengths);
byId("compare").addEventListener("change", showPanes);
byId("stop").addEventListener("click", () => abort?.abort());

byId("prompt-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (abort) return;
  abort = new AbortController();
  setRunning(true);
  const body = {
    model: byId("adapter").value,
    messages: [{ role: "user", content: byId("prompt").value }],
    max_tokens: Number(byId("max-tokens").value),
    temperature: 0,
  };
  const used = byId("compare").checked ? panes : panes.slice(0, 1);
  await Promise.all(used.map((pane) => pane.run(key, body, abort.signal)));
  abort = null;
  setRunning(false);
});

function setRunning(isRunning) {
  byId("send").disabled = isRunning;
  byId("stop").disabled = !isRunning;
  byId("adapter").disabled = isRunning;
  byId("compare").disabled = isRunning;
}

function showPanes() {
  panes[1].element.hidden = !byId("compare").checked;
}

function showStrengths() {
  const model = models.find(({ id }) => id === byId("adapter").value);
  for (const pane of panes) pane.hasStrength = Boolean(model && hasStrength(model));
}

/** The base model, and what the router chooses, have none. */
function hasStrength({ parent, id }) {
  return Boolean(parent) && id !== "auto";
}

function tell(error) {
  byId("error").hidden = !error;
  byId("error").textContent = error ? (error instanceof ApiError ? error.message : String(error)) : "";
}

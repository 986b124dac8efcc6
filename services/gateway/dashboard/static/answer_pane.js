// One answer: its strength, which acts while it runs, its text, and how it ended.
import { el } from "./dom.js";
import { decimal } from "./format.js";
import { ApiError, generate, setStrength } from "./generation.js";

export class AnswerPane {
  constructor(name, strength) {
    this.slider = el("input", { type: "range", min: 0, max: 2, step: 0.05, value: strength,
      id: `strength-${name}` });
    this.shown = el("output", { for: `strength-${name}` });
    this.text = el("div", { class: "answer", tabindex: "0", role: "region",
      "aria-label": `Answer ${name}` });
    this.progress = el("p", { class: "progress", role: "status" }, "Nothing yet.");
    this.error = el("p", { class: "message", role: "alert", hidden: "" });
    this.element = el("section", { "aria-label": `Answer ${name}`, "data-pane": name },
      el("div", { class: "slider" }, el("label", { for: `strength-${name}` }, `Strength ${name}`),
        this.slider, this.shown),
      this.text, this.error, this.progress);
    this.slider.addEventListener("input", () => {
      this.#show();
      this.#send();
    });
    this.#show();
  }

  get strength() {
    return Number(this.slider.value);
  }

  /** Whether the chosen model has a strength. */
  set hasStrength(value) {
    this.isAdapted = value;
    this.slider.disabled = !value;
    this.#show();
  }

  async run(key, body, signal) {
    this.text.replaceChildren();
    this.error.hidden = true;
    this.progress.textContent = "Waiting.";
    const started = performance.now();
    let numPieces = 0;
    const wanted = this.isAdapted ? { ...body, adapter_strength: this.strength } : body;
    this.sent = this.strength;
    const isFixed = this.isAdapted && this.strength === 0;
    this.slider.disabled = isFixed || !this.isAdapted;
    const remark = isFixed ? " Started at 0 it runs without the adapter: start above 0 to change it." : "";
    try {
      for await (const { id, text, usage, reason } of generate(key, wanted, signal)) {
        if (id) {
          this.running = { key, id };
          this.#send();
        } else if (text) {
          numPieces += 1;
          this.text.append(text);
          if (numPieces === 1) this.progress.textContent = `Answering.${remark}`;
        } else {
          const tokens = usage?.completion_tokens;
          const seconds = (performance.now() - started) / 1000;
          this.progress.textContent = `${tokens ?? "Unknown number of"} tokens, ${decimal(tokens / seconds)} `
            + `tokens/s, ended by ${reason === "length" ? "the limit of tokens" : "the model"}.`;
        }
      }
    } catch (error) {
      if (error.name === "AbortError") this.progress.textContent = "Stopped.";
      else this.#tell(error);
    } finally {
      this.running = null;
      this.slider.disabled = !this.isAdapted;
    }
  }

  #show() {
    this.shown.textContent = this.isAdapted ? this.strength.toFixed(2) : "none";
  }

  /** One change at a time; while one is under way only the newest wish is remembered. */
  async #send() {
    if (!this.running || this.isSending || this.sent === this.strength) return;
    this.isSending = true;
    const { running, strength } = this;
    try {
      await setStrength(running.key, running.id, strength);
      this.sent = strength;
      this.element.dataset.strength = strength.toFixed(2);
    } catch (error) {
      // An answer that ended meanwhile has no strength any more.
      if (this.running === running) this.#tell(error);
    } finally {
      this.isSending = false;
    }
    if (this.running === running && this.error.hidden) this.#send();
  }

  #tell(error) {
    this.error.textContent = error instanceof ApiError ? error.message : `Failed: ${error.message}`;
    this.error.hidden = false;
    this.progress.textContent = "Failed.";
  }
}

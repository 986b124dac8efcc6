// What an adapter is called: TENANT/NAME where the library knows it, else its digest.
import { shortDigest } from "./format.js";

export const BASE = "";
export const REST = "other";

export class AdapterNames {
  #names = new Map([[BASE, "base model"], [REST, "other adapters"]]);

  learn(library) {
    for (const { digest, names } of library?.entries ?? []) {
      if (names.length) this.#names.set(digest, names[0]);
    }
  }

  of(digest) {
    return this.#names.get(digest) ?? shortDigest(digest);
  }
}

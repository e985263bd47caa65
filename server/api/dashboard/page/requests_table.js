// The sequences that run and wait, a row each.

import { count, duration, setText } from "./words.js";

export class RequestsTable {
  #body = document.getElementById("requests");
  #rows = new Map(); // by name

  show({ sequences, requests_running: running, requests_waiting: waiting }) {
    const rows = sequences.map((sequence) => this.#row(sequence));
    this.#body.replaceChildren(...rows);
    this.#rows = new Map(sequences.map((sequence, place) => [sequence.name, rows[place]]));
    const hidden = Math.max(0, running + waiting - rows.length);
    setText("requests-more", hidden > 0 ? `${count(hidden)} more` : "");
    document.getElementById("no-requests").hidden = rows.length > 0;
    this.#body.closest(".scrolled").hidden = rows.length === 0;
  }

  #row(sequence) {
    const row = this.#rows.get(sequence.name) ?? newRow(sequence.name);
    const [, prompt, answer, age] = row.cells;
    const cached = sequence.cached_tokens > 0 ? `, ${count(sequence.cached_tokens)} cached` : "";
    const waits = sequence.state === "waiting" ? "waiting, " : "";
    row.dataset.state = sequence.state;
    fill(prompt, sequence.prompt_computed, sequence.prompt_tokens, `${waits}`, cached);
    const again = sequence.preemptions > 0 ? `, preempted ${sequence.preemptions}×` : "";
    fill(answer, sequence.generated_tokens, sequence.max_tokens, "", again);
    age.textContent = duration(sequence.age_seconds);
    return row;
  }
}

function newRow(name) {
  const row = document.createElement("tr");
  for (let column = 0; column < 4; column++) row.append(document.createElement("td"));
  const [title, prompt, answer, age] = row.cells;
  title.className = "name clipped";
  title.textContent = name;
  title.title = name;
  age.className = "age";
  addProgress(prompt, "Prompt computed", "prompt-progress");
  addProgress(answer, "Tokens generated", "");
  return row;
}

function addProgress(cell, label, kind) {
  const bar = document.createElement("progress");
  bar.className = kind;
  bar.setAttribute("aria-label", label);
  cell.append(document.createElement("span"), bar);
}

function fill(cell, done, all, before, after) {
  const [text, bar] = cell.children;
  text.textContent = `${before}${count(done)} of ${count(all)}${after}`;
  bar.max = Math.max(1, all);
  bar.value = done;
}

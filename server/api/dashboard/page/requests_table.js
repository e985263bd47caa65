// The sequences that run and wait, a row each.

import { count, duration, setText } from "./words.js";

export class RequestsTable {
  #body = document.getElementById("requests");
  #rows = []; // reused, whichever sequence they show: names may repeat

  show({ sequences, requests_running: running, requests_waiting: waiting }) {
    this.#rows = sequences.map((sequence, place) => fillRow(this.#rows[place] ?? newRow(), sequence));
    this.#body.replaceChildren(...this.#rows);
    const hidden = Math.max(0, running + waiting - sequences.length);
    setText("requests-more", hidden > 0 ? `${count(hidden)} more` : "");
    document.getElementById("no-requests").hidden = sequences.length > 0;
    this.#body.closest(".scrolled").hidden = sequences.length === 0;
  }
}

function fillRow(row, sequence) {
  const [title, prompt, answer, age] = row.cells;
  const waits = sequence.state === "waiting" ? "waiting, " : "";
  const cached = sequence.cached_tokens > 0 ? `, ${count(sequence.cached_tokens)} cached` : "";
  const again = sequence.preemptions > 0 ? `, preempted ${sequence.preemptions}×` : "";
  row.dataset.state = sequence.state;
  title.textContent = sequence.name;
  title.title = sequence.name;
  fill(prompt, sequence.prompt_computed, sequence.prompt_tokens, waits, cached);
  fill(answer, sequence.generated_tokens, sequence.max_tokens, "", again);
  age.textContent = duration(sequence.age_seconds);
  return row;
}

function newRow() {
  const row = document.createElement("tr");
  for (let column = 0; column < 4; column++) row.append(document.createElement("td"));
  const [title, prompt, answer, age] = row.cells;
  title.className = "name clipped";
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

// The page: one stream of snapshots in, every part of the view redrawn.

import { Playground } from "./playground.js";
import { PoolPicture } from "./pool_picture.js";
import { RequestsTable } from "./requests_table.js";
import { forgetKey, hasKey, useKey } from "./server.js";
import { SnapshotStream } from "./snapshot_stream.js";
import { Sparkline } from "./sparkline.js";
import { count, duration, rate, setText, share } from "./words.js";

const view = document.getElementById("view");
const status = document.getElementById("status");
const keyForm = document.getElementById("key-form");
const picture = new PoolPicture();
const table = new RequestsTable();
const playground = new Playground();
const generatedChart = new Sparkline("generated-chart");
const firstTokenChart = new Sparkline("first-token-chart");
const stream = new SnapshotStream({ show, tell, needKey });

function show(snapshot) {
  view.hidden = false;
  keyForm.hidden = true;
  tell(snapshot.status, snapshot.status);
  setText("model", snapshot.model);
  document.title = `${snapshot.model} – Octavo`;
  showFigures(snapshot);
  showFirstToken(snapshot.first_token);
  picture.show(snapshot.pool);
  table.show(snapshot);
  playground.useModel(snapshot.model);
}

function showFigures(snapshot) {
  setText("generated-rate", rate(snapshot.rates.generated_tokens));
  setText("prompt-rate", rate(snapshot.rates.prompt_tokens));
  generatedChart.add(snapshot.rates.generated_tokens);
  setText("running", count(snapshot.requests_running));
  setText("waiting", count(snapshot.requests_waiting));
  setText("hit-rate", share(snapshot.prefix_hit_rate));
  setText("preemptions", count(snapshot.preemptions));
}

function showFirstToken(times) {
  firstTokenChart.add(times?.median);
  setText("first-token", times === null ? "–" : duration(times.median));
  const requests = times?.requests === 1 ? "1 request" : `${count(times?.requests ?? 0)} requests`;
  const more = times === null ? "No request in the last minute" : `95th percentile ${duration(times.p95)}, ${requests}`;
  setText("first-token-more", more);
}

function tell(state, words) {
  if (status.textContent === words) return;
  status.dataset.state = state;
  status.textContent = words;
}

function needKey() {
  const error = hasKey() ? "The server does not accept this key." : "";
  forgetKey();
  view.hidden = true;
  keyForm.hidden = false;
  tell("refused", "locked");
  setText("key-error", error);
  document.getElementById("key").focus();
}

keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("key");
  useKey(field.value.trim());
  field.value = "";
  stream.start();
});

stream.start();

// A small chat with the served model. Whatever the model writes is text, never markup.

import { eventsOf } from "./event_stream.js";
import { ask, errorMessage } from "./server.js";
import { count, duration } from "./words.js";

const JSON_HEADERS = { "Content-Type": "application/json" };

export class Playground {
  #form = document.getElementById("chat-form");
  #log = document.getElementById("chat");
  #note = document.getElementById("chat-note");
  #send = document.getElementById("send");
  #stop = document.getElementById("stop");
  #messages = [];
  #running = null;
  #model = "";

  constructor() {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#running === null) this.#ask();
    });
    const message = document.getElementById("message");
    message.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#form.requestSubmit();
    });
    this.#stop.addEventListener("click", () => this.#running?.abort());
    document.getElementById("forget").addEventListener("click", () => this.#forget());
  }

  useModel(name) {
    this.#model = name;
  }

  async #ask() {
    const question = value("message");
    document.getElementById("message").value = "";
    this.#say("user", question);
    const history = [...this.#messages, { role: "user", content: question }];
    const bubble = this.#say("assistant", "");
    const running = new AbortController();
    this.#setRunning(running);
    try {
      await this.#stream(history, bubble, running.signal);
    } catch (error) {
      if (!running.signal.aborted) this.#say("error", error.message);
      else if (this.#running === running) this.#note.textContent = "Stopped.";
    }
    if (this.#running !== running) return; // a new chat has begun
    this.#setRunning(null);
    if (bubble.textContent === "") bubble.remove();
    else this.#messages = [...history, { role: "assistant", content: bubble.textContent }];
  }

  async #stream(history, bubble, signal) {
    const began = performance.now();
    const body = JSON.stringify(this.#request(history));
    const response = await ask("../v1/chat/completions", { method: "POST", headers: JSON_HEADERS, body, signal });
    for await (const data of eventsOf(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      const failure = errorMessage(chunk);
      if (failure !== null) throw new Error(failure);
      bubble.textContent += chunk.choices[0]?.delta.content ?? "";
      this.#log.scrollTop = this.#log.scrollHeight;
      if (chunk.usage) this.#tellUsage(chunk.usage, (performance.now() - began) / 1000);
    }
    throw new Error("The connection was lost.");
  }

  #request(history) {
    const system = value("system");
    return {
      model: this.#model,
      messages: [...(system === "" ? [] : [{ role: "system", content: system }]), ...history],
      temperature: Number(value("temperature")),
      max_completion_tokens: Number(value("max-tokens")),
      stream: true,
      stream_options: { include_usage: true },
    };
  }

  #tellUsage(usage, seconds) {
    this.#note.textContent = `${count(usage.completion_tokens)} tokens in ${duration(seconds)}`;
  }

  #say(who, text) {
    const bubble = document.createElement("p");
    bubble.className = who;
    bubble.textContent = text;
    this.#log.append(bubble);
    this.#log.scrollTop = this.#log.scrollHeight;
    return bubble;
  }

  #setRunning(running) {
    this.#running = running;
    this.#send.disabled = running !== null;
    this.#stop.disabled = running === null;
    if (running !== null) this.#note.textContent = "";
  }

  #forget() {
    this.#running?.abort();
    this.#setRunning(null);
    this.#messages = [];
    this.#log.replaceChildren();
    this.#note.textContent = "";
  }
}

function value(id) {
  return document.getElementById(id).value.trim();
}

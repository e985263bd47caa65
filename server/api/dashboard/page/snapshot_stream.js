// Snapshots for as long as the page is looked at, over one connection after the other.

import { eventsOf } from "./event_stream.js";
import { ask, errorMessage, Refused } from "./server.js";

const FIRST_WAIT = 1000; // milliseconds
const LONGEST_WAIT = 15000;

export class SnapshotStream {
  #show;
  #tell;
  #needKey;
  #connection = null;
  #timer = null;
  #wait = FIRST_WAIT;

  /** `show` takes a snapshot, `tell` a state and its words, `needKey` is called where one is asked for. */
  constructor({ show, tell, needKey }) {
    this.#show = show;
    this.#tell = tell;
    this.#needKey = needKey;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
  }

  start() {
    this.stop();
    this.#connection = new AbortController();
    this.#run(this.#connection.signal);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#connection?.abort();
  }

  async #run(signal) {
    try {
      const response = await ask("snapshots", { signal });
      for await (const data of eventsOf(response)) {
        if (signal.aborted) return;
        this.#take(data);
      }
      this.#retry(signal, "the server has ended");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status === 401) this.#needKey();
      else this.#retry(signal, error instanceof Refused ? error.message : "the server is not reached");
    }
  }

  #take(data) {
    if (data === "[DONE]") return;
    const snapshot = JSON.parse(data);
    const failure = errorMessage(snapshot);
    if (failure !== null) throw new Refused(500, failure);
    this.#wait = FIRST_WAIT;
    this.#show(snapshot);
  }

  #retry(signal, why) {
    if (signal.aborted) return;
    this.#tell("lost", `${why}; again in ${this.#wait / 1000} s`);
    this.#timer = setTimeout(() => this.start(), this.#wait);
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT);
  }
}

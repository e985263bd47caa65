// Requests to this server, with the key of this tab.

const STORED = "octavo-key";

/** The server said no: `status` of HTTP, and its message. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function useKey(key) {
  sessionStorage.setItem(STORED, key);
}

export function hasKey() {
  return sessionStorage.getItem(STORED) !== null;
}

export function forgetKey() {
  sessionStorage.removeItem(STORED);
}

/** The response to a request; throws Refused, or TypeError where the server is not reached. */
export async function ask(path, options = {}) {
  const key = sessionStorage.getItem(STORED);
  const headers = { ...options.headers, ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
  const url = new URL(path, import.meta.url);
  const response = await fetch(url, { ...options, headers, cache: "no-store" });
  if (!response.ok) throw new Refused(response.status, await messageOf(response));
  return response;
}

/** The message of an error's envelope, which is an answer or an event. */
export function errorMessage(body) {
  return body?.error?.message ?? null;
}

async function messageOf(response) {
  try {
    return errorMessage(await response.json()) ?? response.statusText;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

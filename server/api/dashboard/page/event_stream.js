// Server-sent events from fetch(): EventSource cannot send a key.

/** The data of each event of a response, in order. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let unfinished = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (unfinished + value).split("\n\n");
      unfinished = events.pop();
      yield* events.map(dataOf).filter((data) => data !== "");
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function dataOf(event) {
  const lines = event.split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => line.slice(6)).join("\n");
}

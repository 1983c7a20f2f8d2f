// Reads a streamed chat completion: one object per server-sent event.

/** What the server answered instead of a stream, or in the middle of one. */
export class ServerError extends Error {}

/**
 * Ask for a completion and yield its chunks. Ends after [DONE]; a stream that is cut before it is
 * an error, never a silent end. Aborting `signal` rejects with an AbortError.
 */
export async function* completion(model, messages, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      model, messages, stream: true, stream_options: { include_usage: true },
      temperature: 0.6, min_p: 0.05, // calmer than the API's default: small models wander at 1
    }),
    signal,
  });
  if (!response.ok) {
    throw new ServerError(await problem(response));
  }
  for await (const data of events(response.body)) {
    if (data === "[DONE]") {
      return;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) {
      throw new ServerError(chunk.error.message);
    }
    yield chunk;
  }
  throw new ServerError("The answer was cut off.");
}

async function problem(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        if (block.startsWith("data: ")) {
          yield block.slice(6);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

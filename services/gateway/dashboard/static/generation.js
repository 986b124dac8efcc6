// Calls the tenants' API on this origin. The key is an argument each time and kept nowhere else.

export class ApiError extends Error {}

export async function listModels(key) {
  return (await (await call(key, "/v1/models")).json()).data;
}

/** Changes the strength of the one adapter of a running generation. */
export async function setStrength(key, id, strength) {
  await call(key, `/v1/generations/${id}/strength`, { strength });
}

/** Yields {id} first, then {text} for each piece, then {usage, reason}. Raises ApiError. */
export async function* generate(key, body, signal) {
  const answer = await call(key, "/v1/chat/completions",
    { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  yield { id: answer.headers.get("x-request-id") };
  const end = {};
  for await (const line of dataLines(answer.body)) {
    if (line === "[DONE]") {
      yield end;
      return;
    }
    const chunk = JSON.parse(line);
    if (chunk.error) throw new ApiError(chunk.error.message);
    const [choice] = chunk.choices;
    if (choice?.delta?.content) yield { text: choice.delta.content };
    if (choice?.finish_reason) end.reason = choice.finish_reason;
    if (chunk.usage) end.usage = chunk.usage;
  }
  throw new ApiError("The answer was cut: the connection ended before it was complete.");
}

async function call(key, path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method: body ? "POST" : "GET",
      headers: { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body),
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The gateway does not answer: is it running?");
  }
  if (!answer.ok) throw new ApiError(await refusal(answer));
  return answer;
}

async function refusal(answer) {
  let document;
  try {
    document = await answer.json();
  } catch {
    return `The gateway answered ${answer.status}.`;
  }
  const wait = answer.headers.get("retry-after");
  return `${document.error.message}${wait ? ` (try again in ${wait} s)` : ""}`;
}

/** The `data:` lines of server-sent events, as they come. */
async function* dataLines(stream) {
  let rest = "";
  for await (const piece of pieces(stream.pipeThrough(new TextDecoderStream()))) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) yield line.slice(5).trim();
    }
  }
}

async function* pieces(stream) {
  const reader = stream.getReader(); // not every browser iterates over streams
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have failed already, which was told
  }
}

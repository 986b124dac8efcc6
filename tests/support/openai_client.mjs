// What a Node program does with the openai package. Prints one JSON document.
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Hi." }];
const found = {};

found.models = [];
for await (const model of client.models.list()) found.models.push(model.id);

const whole = await client.chat.completions.create({ model: "home", messages });
found.whole = whole.choices[0].message.content;
found.tokens = whole.usage.total_tokens;

const stream = await client.chat.completions.create({
  model: "home",
  messages,
  stream: true,
  stream_options: { include_usage: true },
});
found.streamed = "";
for await (const chunk of stream) {
  found.streamed += chunk.choices[0]?.delta?.content ?? "";
  found.finish = chunk.choices[0]?.finish_reason ?? found.finish;
  found.streamedTokens = chunk.usage?.total_tokens ?? found.streamedTokens;
}

found.completion = (await client.completions.create({ model: "home", prompt: "Hi." })).choices[0].text;
found.response = (await client.responses.create({ model: "home", input: "Hi." })).output_text;

const events = await client.responses.create({ model: "home", input: "Hi.", stream: true });
found.events = [];
for await (const event of events) found.events.push(event.type);

try {
  await client.chat.completions.create({ model: "nobody", messages });
} catch (error) {
  found.error = [error.constructor.name, error.status, error.code, error.requestID?.length];
}

const left = new AbortController();
const endless = await client.chat.completions.create(
  { model: "home", messages, stream: true },
  { signal: left.signal },
);
for await (const _ of endless) left.abort();
found.left = true;

console.log(JSON.stringify(found));

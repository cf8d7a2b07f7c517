// Asks the bridge through the AI SDK. The task comes as JSON on standard input; what the SDK made of the
// answer goes out as JSON on standard output.
import { exec } from "node:child_process";
import { promisify } from "node:util";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const task = JSON.parse(Buffer.concat(chunks).toString());

const apiKey = "client-key";
const openai = createOpenAI({ baseURL: `${task.address}/v1`, apiKey });
const anthropic = createAnthropic({ baseURL: `${task.address}/v1`, apiKey });
const google = createGoogleGenerativeAI({ baseURL: `${task.address}/v1beta`, apiKey });
const providers = {
  responses: { model: openai.responses, options: "openai" },
  chat: { model: openai.chat, options: "openai" },
  anthropic: { model: anthropic, options: "anthropic" },
  google: { model: google, options: "google" },
};
const provider = providers[task.provider];

const run = promisify(exec);
const weather = tool({
  description: "Weather of a city",
  inputSchema: object("city"),
  execute: async ({ city }) => ({ city, sky: "clear" }),
});
const shell = tool({
  description: "Runs a command",
  inputSchema: object("command"),
  execute: async ({ command }) => (await run(command)).stdout,
});
const call = {
  model: provider.model(task.model),
  messages: task.messages,
  maxRetries: 0,
  stopWhen: isStepCount(5),
  tools: {
    ...(task.tools ? { get_weather: weather } : {}),
    ...(task.shell ? { run_command: shell } : {}),
    ...(task.search ? { web_search: openai.tools.webSearch({}) } : {}),
  },
  providerOptions: { [provider.options]: task.options },
};

function object(field) {
  return jsonSchema({
    type: "object",
    properties: { [field]: { type: "string" } },
    required: [field],
    additionalProperties: false,
  });
}

async function streamed() {
  const deltas = [];
  const kinds = [];
  const errors = [];
  const result = streamText({ ...call, onError: ({ error }) => errors.push(described(error)) });
  for await (const part of result.fullStream) {
    kinds.push(part.type);
    if (part.type === "text-delta") deltas.push(part.text);
  }
  if (errors.length) return { deltas, kinds, errors };
  return { deltas, kinds, errors, ...(await told(result)) };
}

async function told(result) {
  return {
    text: await result.text,
    reasoning: await result.reasoningText,
    finishReason: await result.finishReason,
    usage: await result.totalUsage,
    warnings: await result.warnings,
    messages: await result.responseMessages,
    steps: (await result.steps).map((step) => ({
      finishReason: step.finishReason,
      calls: step.toolCalls.map(({ toolName, toolCallId, input }) => ({ toolName, toolCallId, input })),
      results: step.toolResults.map(({ toolCallId, output }) => ({ toolCallId, output })),
    })),
  };
}

function described(error) {
  const { name, message, statusCode, isRetryable, data } = error;
  return { name, message, statusCode, isRetryable, data };
}

let answer;
try {
  answer = task.stream ? await streamed() : await told(await generateText(call));
} catch (error) {
  answer = { errors: [described(error)] };
}
process.stdout.write(JSON.stringify(answer));

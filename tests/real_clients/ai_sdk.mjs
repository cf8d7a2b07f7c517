// Asks the bridge through the AI SDK. The task comes as JSON on standard input; what the SDK made of the
// answer goes out as JSON on standard output.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const task = JSON.parse(Buffer.concat(chunks).toString());

const openai = createOpenAI({ baseURL: task.baseURL, apiKey: "client-key" });
const weather = tool({
  description: "Weather of a city",
  inputSchema: jsonSchema({
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  }),
  execute: async ({ city }) => ({ city, sky: "clear" }),
});
const call = {
  model: openai.responses(task.model),
  messages: task.messages,
  maxRetries: 0,
  stopWhen: stepCountIs(4),
  tools: {
    ...(task.tools ? { get_weather: weather } : {}),
    ...(task.search ? { web_search: openai.tools.webSearch({}) } : {}),
  },
  providerOptions: { openai: { store: false, ...task.options } },
};

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
    messages: (await result.response).messages,
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

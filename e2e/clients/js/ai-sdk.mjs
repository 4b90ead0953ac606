// Vercel's AI SDK: the library runs the loop and the tools.
import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { main, maxTurns, model, stream } from './program.mjs'
import { question, system, tools } from './tools.mjs'

globalThis.AI_SDK_LOG_WARNINGS = false

const bedrock = createAmazonBedrock()
const request = {
  model: bedrock(model),
  system,
  prompt: question,
  stopWhen: stepCountIs(maxTurns),
  tools: Object.fromEntries(
    tools.map(({ name, description, schema, call }) => [
      name,
      tool({ description, inputSchema: jsonSchema(schema), execute: async (input) => call(input) }),
    ]),
  ),
}

// A failed stream ends quietly with the text so far unless onError is read.
async function streamed() {
  let failure
  const result = streamText({ ...request, onError: ({ error }) => (failure ??= error) })
  try {
    await result.consumeStream()
    const text = await result.text
    if (!failure) return text
  } catch (err) {
    failure ??= err
  }
  throw failure
}

await main(async () => (stream ? streamed() : (await generateText(request)).text))

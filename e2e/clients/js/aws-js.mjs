// AWS SDK for JavaScript v3, the Converse API by hand.
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
} from '@aws-sdk/client-bedrock-runtime'
import { main, maxTurns, model, stream } from './program.mjs'
import { callTool, question, system, tools } from './tools.mjs'

const client = new BedrockRuntimeClient({})
const toolConfig = {
  tools: tools.map(({ name, description, schema }) => ({
    toolSpec: { name, description, inputSchema: { json: schema } },
  })),
}

async function whole(request) {
  const { output, stopReason } = await client.send(new ConverseCommand(request))
  return { message: output.message, stopReason }
}

async function streamed(request) {
  const { stream: events } = await client.send(new ConverseStreamCommand(request))
  const blocks = []
  let stopReason
  for await (const event of events) {
    if (event.contentBlockStart) begin(blocks, event.contentBlockStart)
    if (event.contentBlockDelta) extend(blocks, event.contentBlockDelta)
    if (event.messageStop) stopReason = event.messageStop.stopReason
  }
  if (!stopReason) throw new Error('the stream ended before messageStop')
  return { message: { role: 'assistant', content: blocks.map(finish) }, stopReason }
}

function begin(blocks, { contentBlockIndex: i, start }) {
  blocks[i] = { toolUse: { ...start.toolUse, input: '' } }
}

function extend(blocks, { contentBlockIndex: i, delta }) {
  if (delta.toolUse) blocks[i].toolUse.input += delta.toolUse.input
  if (delta.text !== undefined) (blocks[i] ??= { text: '' }).text += delta.text
}

function finish(block) {
  if (!block.toolUse) return block
  return { toolUse: { ...block.toolUse, input: JSON.parse(block.toolUse.input || '{}') } }
}

function results(message) {
  return message.content
    .filter((block) => block.toolUse)
    .map(({ toolUse: { toolUseId, name, input } }) => ({
      toolResult: { toolUseId, content: [{ json: callTool(name, input) }] },
    }))
}

await main(async () => {
  const messages = [{ role: 'user', content: [{ text: question }] }]
  for (let turn = 0; turn < maxTurns; turn++) {
    const request = { modelId: model, system: [{ text: system }], messages, toolConfig }
    const { message, stopReason } = await (stream ? streamed : whole)(request)
    messages.push(message)
    if (stopReason !== 'tool_use') return message.content.map((b) => b.text ?? '').join('')
    messages.push({ role: 'user', content: results(message) })
  }
  throw new Error(`no final answer after ${maxTurns} turns`)
})

// Anthropic's client for Bedrock: InvokeModel with the Messages body.
import { AnthropicBedrock } from '@anthropic-ai/bedrock-sdk'
import { main, maxTurns, model, stream } from './program.mjs'
import { callTool, question, system, tools } from './tools.mjs'

const client = new AnthropicBedrock()

function ask(messages) {
  const request = {
    model,
    max_tokens: 1024,
    system,
    messages,
    tools: tools.map(({ name, description, schema }) => ({
      name,
      description,
      input_schema: schema,
    })),
  }
  return stream ? client.messages.stream(request).finalMessage() : client.messages.create(request)
}

function results(content) {
  return content
    .filter((block) => block.type === 'tool_use')
    .map(({ id, name, input }) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: JSON.stringify(callTool(name, input)),
    }))
}

await main(async () => {
  const messages = [{ role: 'user', content: question }]
  for (let turn = 0; turn < maxTurns; turn++) {
    const { content, stop_reason: reason } = await ask(messages)
    messages.push({ role: 'assistant', content })
    if (reason !== 'tool_use') return content.map((block) => block.text ?? '').join('')
    messages.push({ role: 'user', content: results(content) })
  }
  throw new Error(`no final answer after ${maxTurns} turns`)
})

// OpenAI's client on Bedrock's OpenAI-compatible path: Chat Completions.
import OpenAI from 'openai'
import { main, maxTurns, stream } from './program.mjs'
import { callTool, question, system, tools } from './tools.mjs'

const client = new OpenAI()

async function ask(messages) {
  const request = {
    model: process.env.MODEL || 'openai.gpt-oss-120b-1:0',
    messages,
    tools: tools.map(({ name, description, schema }) => ({
      type: 'function',
      function: { name, description, parameters: schema },
    })),
  }
  const completion = stream
    ? await client.chat.completions.stream(request).finalChatCompletion()
    : await client.chat.completions.create(request)
  return completion.choices[0].message
}

await main(async () => {
  const messages = [
    { role: 'system', content: system },
    { role: 'user', content: question },
  ]
  for (let turn = 0; turn < maxTurns; turn++) {
    const answer = await ask(messages)
    messages.push(answer)
    if (!answer.tool_calls?.length) return answer.content
    for (const { id, function: f } of answer.tool_calls) {
      const content = JSON.stringify(callTool(f.name, JSON.parse(f.arguments)))
      messages.push({ role: 'tool', tool_call_id: id, content })
    }
  }
  throw new Error(`no final answer after ${maxTurns} turns`)
})

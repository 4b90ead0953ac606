// Strands Agents for TypeScript: the library runs the loop and the tools.
import { Agent, BedrockModel, tool } from '@strands-agents/sdk'
import { main, model, stream } from './program.mjs'
import { question, system, tools } from './tools.mjs'

await main(async () => {
  const agent = new Agent({
    model: new BedrockModel({ modelId: model, stream }),
    systemPrompt: system,
    tools: tools.map(({ name, description, schema, call }) =>
      tool({ name, description, inputSchema: schema, callback: call }),
    ),
    // Otherwise the agent prints the answer as it arrives, tool calls and all.
    printer: false,
  })
  const { lastMessage } = await agent.invoke(question)
  return lastMessage.content.map((block) => block.text ?? '').join('')
})

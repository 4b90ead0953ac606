// LangChain.js: ChatBedrockConverse with bound tools, the loop by hand.
import { ChatBedrockConverse } from '@langchain/aws'
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages'
import { main, maxTurns, model, stream } from './program.mjs'
import { callTool, question, system, tools } from './tools.mjs'

const llm = new ChatBedrockConverse({ model, region: process.env.AWS_REGION }).bindTools(
  tools.map(({ name, description, schema }) => ({
    type: 'function',
    function: { name, description, parameters: schema },
  })),
)

async function streamed(messages) {
  let answer
  for await (const chunk of await llm.stream(messages)) answer = answer?.concat(chunk) ?? chunk
  return answer
}

await main(async () => {
  const messages = [new SystemMessage(system), new HumanMessage(question)]
  for (let turn = 0; turn < maxTurns; turn++) {
    const answer = stream ? await streamed(messages) : await llm.invoke(messages)
    messages.push(answer)
    if (!answer.tool_calls?.length) return answer.text
    for (const { id, name, args } of answer.tool_calls) {
      const content = JSON.stringify(callTool(name, args))
      messages.push(new ToolMessage({ tool_call_id: id, name, content }))
    }
  }
  throw new Error(`no final answer after ${maxTurns} turns`)
})

// The two tools every JavaScript client offers the model, described once as
// plain JSON Schema: Zod would refuse the script's 9007199254740993, which is
// beyond the integers a double can hold, and that number is the point.

const city = { type: 'string', description: 'Name of the city.' }

export const question = 'What is the weather and time in Oslo?'
export const system = 'Answer with the tools. Be brief.'

export const tools = [
  {
    name: 'get_weather',
    description: 'Current temperature in a city, in degrees Celsius.',
    schema: {
      type: 'object',
      properties: { city, id: { type: 'integer', description: 'Station, if known.' } },
      required: ['city'],
    },
    call: ({ city }) => ({ city, temp: temperature(city) }),
  },
  {
    name: 'get_time',
    description: 'Local time in a city.',
    schema: { type: 'object', properties: { city }, required: ['city'] },
    call: ({ city }) => ({ city, time: '10:00' }),
  },
]

// TOOL_OSLO_TEMP is how a test changes one tool result and nothing else.
function temperature(city) {
  return city === 'Oslo' ? Number(process.env.TOOL_OSLO_TEMP || 3) : 7
}

export function callTool(name, input) {
  const tool = tools.find((t) => t.name === name)
  if (!tool) throw new Error(`the model asked for ${JSON.stringify(name)}; there is no such tool`)
  return tool.call(input)
}

// What every JavaScript client shares as a program: its settings, and how it
// ends: the final text on stdout and exit 0, or one ERROR line and exit 1.

export const model = process.env.MODEL || 'anthropic.claude-sonnet-4-5-20250929-v1:0'
export const stream = process.env.STREAM === '1'
// More turns than the script has: a model that never stops must not hang a test.
export const maxTurns = 6

export async function main(loop) {
  try {
    process.stdout.write((await loop()).trim() + '\n')
  } catch (err) {
    console.error(errorLine(err))
    process.exitCode = 1
  }
}

// Each library wraps the service's answer in its own layers; the layer with an
// HTTP status is the one that knows what the service said.
function errorLine(err) {
  const layers = unwrap(err)
  const told = layers.find(status) ?? layers.at(-1)
  const message = String(told.message ?? told).replace(/\s+/g, ' ')
  return `ERROR ${status(told) ?? 0} ${serviceName(told)}: ${message}`
}

function unwrap(err) {
  const layers = []
  for (let e = err; e && !layers.includes(e); e = e.lastError ?? e.cause) layers.push(e)
  return layers
}

function status(err) {
  return err.$metadata?.httpStatusCode ?? err.status ?? err.statusCode
}

function serviceName(err) {
  const header = err.responseHeaders?.['x-amzn-errortype'] ?? err.headers?.get?.('x-amzn-errortype')
  // Some errors are called Error, and one is a bare object: the class says more, or nothing does.
  const names = [header, err.name, err.constructor?.name]
  return (names.find((n) => n && n !== 'Error' && n !== 'Object') ?? 'Error').split(':')[0]
}

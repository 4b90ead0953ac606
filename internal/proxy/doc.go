// Package proxy stands between an agent and Amazon Bedrock and makes cassettes
// of what passes. The agent changes one environment variable and nothing else.
//
// New makes a Proxy in one of three modes. Record forwards each call, signed
// anew, and writes the runs it sees, behind the traffic unless it has to be
// durable. Replay answers from cassettes and never holds anything that could reach
// a network. Fork replays up to an event, patches it, and then halts or goes on
// over the upstream. A Proxy is an http.Handler; Serve puts it on a port that
// speaks HTTP/1.1 and cleartext HTTP/2. Close seals what ended and says what was
// left over.
//
// What it promises: bytes of an answer are passed on as they come and kept
// exactly; a stream is never held back, but for its end where the record has to be
// durable; requests are told apart by what they mean (package foreign), never by
// their order alone; a difference is answered with HTTP 409 that names the event
// and the JSON pointer. Every change that is tolerated is counted. Credentials of
// either side are not written anywhere: authorization never leaves the handler,
// response headers are an allow-list, bodies are scrubbed.
//
// What it refuses: other addresses than loopback without a token, requests from
// web pages, and operations it does not know, by name.
package proxy

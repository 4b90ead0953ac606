// Package bedrocktest is a local Amazon Bedrock runtime for tests.
//
// Start (or New in a test) opens one loopback port that speaks HTTP/1.1 and
// cleartext HTTP/2 with prior knowledge, or TLS with a generated authority.
// It answers Converse, ConverseStream, CountTokens, InvokeModel and
// InvokeModelWithResponseStream (Anthropic bodies), ApplyGuardrail, the OpenAI
// chat completions route and the Anthropic messages route.
//
// What the model says comes from a Script: a function of the request alone, so
// any number of clients can share one server. Position in a conversation is
// read from the conversation, never from a counter of the server.
//
// It is a judge, not a mock: a request that public reports show Bedrock
// refusing is refused here with the same status, type and text (Validate and
// its table of rules). A Fault makes a named trouble happen to some requests.
//
// What it does not do: it checks no signatures, keeps no quota, cuts no answer
// at maxTokens, lets cache entries live until Close, and knows nothing of
// images or documents beyond their shape. Reasoning is not shown on the OpenAI
// route. Token counts are an estimate of four bytes to a token. Nothing in it
// was compared with a live account; each rule names the public report it is
// taken from. The package imports no other package of the module, so that it
// can contradict them.
package bedrocktest

// Package converse knows the shapes of Bedrock's Converse API and nothing of
// how they travel: requests, responses, content blocks, and the assembly of a
// streamed answer. Every model in this project, Bedrock's or the rule model,
// is spoken to in these shapes, so a run is the same whoever answers.
//
// A conversation is a Thread, an immutable list that shares its past with
// every thread grown from it: forks and long runs cost one node a message. A
// Thread carries a digest chained over its messages, so the digest of a request
// costs the same at turn 800 as at turn 1.
//
// A Request is a model id, a thread, the other members of a Converse body
// exactly as given (system, toolConfig, inferenceConfig, …) and the rule by
// which cache points are placed. Its Digest covers all four; its Body is the
// canonical JSON that goes over the wire.
//
// A Turn is a model's answer read leniently: what this build does not know is
// kept as raw JSON, never dropped. Normalize and Assemble turn what came over
// the wire into the canonical response that becomes the event's data; durations
// (metrics.latencyMs) are left out there because they differ between two honest
// executions.
//
// The package is pure.
package converse

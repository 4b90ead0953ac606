// Package foreign reads the traffic of agents that are not ours: what an HTTP
// request to Bedrock asks, what the answer says, and which events of a run
// both make. It is the pure half of the proxy.
//
// An agent may speak Converse, Anthropic's Messages (bare or wrapped in
// InvokeModel) or OpenAI's Chat Completions; ReadRequest and ReadAnswer bring
// all of them into the shapes of package converse, so that one ledger, one diff
// and one kind of patch serve them all. What cannot be read as a turn is kept
// raw, never dropped.
//
// A Projector derives the events of a run from its calls. Tools run on the
// agent's side and are never seen; their results are read from the next request.
// Meaning is what stays of a request when everything is taken out that honest
// clients change when they send a conversation back; Compare says which of
// those changes, each a Change by name, lie between two requests, or that they
// differ. The encoders turn an edited answer back into what travels, an Insertion
// adds calls to a history whose agent never made them, and ToConverse lets a model
// that speaks Converse alone answer every dialect.
//
// The package is pure.
package foreign

// Package rule is a model that follows rules instead of thinking: it takes the
// chair of a Bedrock model where there is none (offline, in tests, in sweeps).
//
// [Respond] is a function of the request alone: the same conversation gives the
// same bytes, in any process, at any time. It keeps nothing between turns. Each
// turn goes through the whole investigation again from its beginning; a question
// whose answer stands in the conversation is taken from there, and the ones
// without an answer become the turn's tool calls. So it reacts to every edit of
// the conversation, and it repeats itself exactly where nothing was edited.
//
// The investigation, in order: the alert's metric, and from when it is wrong;
// changes of that service shortly before (one found ends the search); log lines
// that are new since then; the call graph downwards to the deepest service that
// shows the same kind of symptom, and its changes. What it concludes it reports
// with package verdict, citing evidence addresses that exist. What it could not
// look at stands in not_examined, and where the evidence does not carry a
// conclusion it says that a human is needed.
//
// It asks each question at most twice, the second time in another way, takes at
// most twelve turns, and calls tools that the request offers and no others. A
// request it can do nothing with (foreign tools, no tools, no text) gets a plain
// answer that says so and quotes what foreign tools returned; those that only
// read, going by their names, it calls once with values from the question. It
// never panics and never returns an error.
//
// Numbers and times in its texts are copied from results, never computed.
//
// The package is pure.
package rule

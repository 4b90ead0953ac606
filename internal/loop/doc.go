// Package loop is the agent: a state machine that does no input or output.
//
// A State says which calls it waits for (Next) and takes their returns in call
// order (Apply), which yields the next State and the events that happened. It
// is a value: any State may be kept, copied and continued, so the state at an
// event is the fold of the returns before it, and a fork is another
// continuation of an old State. Snapshot and Restore carry one across
// processes; they give what the fold gives.
//
// Run drives a State over an edge until it is done. There is one Run: live,
// replay, fork and test differ in the edge and in the Sink that takes the
// events, never in here. Given the same run.started data and the same returns,
// the events are the same bytes.
//
// What the world may do wrong is an event like any other: a model that fails, a
// tool call whose input is no JSON, a context that overflows, a model that stops
// without a verdict. Every run ends in run.finished, with a verdict or with the
// reason why there is none.
//
// The package is pure.
package loop

// Package engine composes edges into the things a person asks for: a live run,
// a replay, a fork. Each is the same loop over other edges; what differs is
// which edge answers, and which sink takes the events.
//
//	live     model: Bedrock or rule   tools: executed            sink: recorder
//	replay   model: tape              tools: executed, or tape   sink: comparer
//	fork     history from the tape, one return patched, then
//	  halt   model: stops             tools: tape                sink: recorder
//	  live   model: asked again       tools: tape for identical  sink: recorder
//	                                  calls, executed otherwise
//
// The edges here are small and stack: Parallel runs a turn's calls at once,
// Stamp notes when and how long, Guard refuses tools with effects, Identical
// answers a call from the tape when the parent made the very same one.
//
// A replay never holds an edge that could reach a model, so it cannot dial one.
// Nothing in this package writes outside the recorder it is given.
package engine

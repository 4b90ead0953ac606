// Package bedrock is the model edge: it sends a run's model calls to Amazon
// Bedrock and brings back what came over the wire.
//
// New finds credentials, region and endpoint as every AWS tool does and fails
// within seconds, with a *SetupError that says what to do, when one is missing.
// Edge.Do then answers model calls by ConverseStream, or by Converse.
//
// The AWS SDK resolves, signs, sends and reads error responses. It does not get
// to see the two things that must be exact. The request is
// call.Request.Body() byte for byte, put in place of what the SDK serialises:
// its document type would send numbers as strings. A good answer is read by this
// package from the raw bytes: the SDK's decoder drops content blocks it does not
// know and takes half a stream for a whole one.
//
// One loop here makes all attempts, so that an exception in the middle of a
// stream is tried again like one before it, and every attempt is in
// Return.Wire. Whether and when follows the SDK's standard retryer (eight
// attempts, no retry quota), with these additions: ModelTimeout and ModelNotReady
// are tried again; so is an answer that is cut short, damaged, empty or silent
// for IdleTimeout; a web page with status 200 is not, and a redirect is never
// followed. CallTimeout bounds a call with all its attempts. A part of an answer
// is never taken for a whole one.
//
// What stays broken after that is a Return with Failed set, because a world that
// fails is data; Explain turns it into advice. Failures are worded without
// addresses, ports and paths, so that the ledger holds nothing of this machine.
//
// Requests for anything but models (single sign-on, roles) do not pass through
// the recording transport: their secrets cannot end up in a cassette.
package bedrock

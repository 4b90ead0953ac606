// Package ledger holds what a run is made of: events, their one canonical
// spelling, and the chained sums by which two runs are compared.
//
// A ledger is the ordered list of a run's events. Its text form has one event
// a line, each line the canonical JSON of {"data":…,"in":…,"seq":…,"type":…}.
// Two ledgers are identical exactly when those bytes are; nothing that differs
// between two honest executions (times, durations, hosts, request ids) is ever
// part of an event.
//
// Canonical JSON here means: members sorted by the bytes of their decoded
// names, the last of repeated members kept, no white space, strings escaped
// only where JSON requires it, valid UTF-8 (anything else becomes U+FFFD), and
// numbers left as they were written, so that 1.0, 1e400, -0.0 and
// 9007199254740993 survive. Canonicalising twice changes nothing.
//
// Every event has a Sum chained over all lines up to it. Equal sums mean equal
// ledgers up to there, so the first divergence is found by bisection.
//
// The package is pure: it touches no clock, file, network or random source.
package ledger

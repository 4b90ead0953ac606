// Package diff says how two JSON documents, and how two runs, differ.
//
// Values finds the smallest differing parts of two documents. It compares
// canonical text, so numbers stay as they were written: 9007199254740993 and
// 9007199254740992 differ, and so do 1.0 and 1, while white space, member order
// and the spelling of escapes do not count. Arrays are aligned by a longest
// common subsequence, so an inserted element is one change and not one for
// every element behind it.
//
// Ledgers compares two runs: what each concluded, whether their bytes are
// equal, the first event at which they are not, what differs there, and the
// events behind it, aligned so that inserted ones shift nothing.
//
// A Change addresses the document it took something from: the path of a part
// that was dropped, changed or truncated points into the old document, that of
// a part that was added into the new one. Ops turns changes into operations
// that can be applied in order.
//
// Documents nested deeper than the ledger allows, and text that is not JSON,
// are errors. Neither input is modified or kept; results own their bytes.
//
// The package is pure, and wording for people is left to package report.
package diff

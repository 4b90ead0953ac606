package faults

import "fmt"

// Kind says why a patch was refused.
type Kind string

// The kinds.
const (
	BadPatch      Kind = "bad patch"      // the patch itself is not well formed
	NotPatchable  Kind = "not patchable"  // this event cannot take this patch
	NotApplicable Kind = "not applicable" // an operation points at nothing, or a test failed
	NoChange      Kind = "no change"      // the event would be the same
	Refused       Kind = "refused"        // Bedrock or the loop would not take the result
)

// Error is every error of this package.
type Error struct {
	Kind  Kind
	Event int    // seq of the event, 0 if none is concerned
	What  string // what was expected and found
	Hint  string // what to do next, "" if there is no advice
	Err   error
}

// Error returns the text without the hint.
func (e *Error) Error() string {
	text := e.What
	if e.Event > 0 {
		text = fmt.Sprintf("patch event %d: %s", e.Event, text)
	} else {
		text = "read patch: " + text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fault(kind Kind, hint, format string, args ...any) *Error {
	return &Error{Kind: kind, Hint: hint, What: fmt.Sprintf(format, args...)}
}

// at stamps the event on an error of this package.
func at(seq int, err *Error) *Error {
	err.Event = seq
	return err
}

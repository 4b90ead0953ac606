package faults

import (
	"bytes"
	"encoding/json"
	"fmt"

	"investigator/internal/ledger"
)

// Patch is the edit of one event. It has exactly one of Ops, Fault, Replace,
// Error and Insert. Its JSON goes into the cassette's header as lineage.
type Patch struct {
	At      int             `json:"at"`                // seq of the event
	Ops     json.RawMessage `json:"ops,omitempty"`     // RFC 6902 operations, and "set"
	Fault   string          `json:"fault,omitempty"`   // name of a fault
	Replace json.RawMessage `json:"replace,omitempty"` // what stands there instead
	Error   *string         `json:"error,omitempty"`   // the call fails with this text
	Insert  *Insert         `json:"insert,omitempty"`  // one more call, and its return
	Note    string          `json:"note,omitempty"`    // why, in the user's words
}

// Insert is a call that never happened and what it returned.
type Insert struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`  // an object
	Result json.RawMessage `json:"result"` // any JSON
	// Failed says that the call failed. A result whose status is error says so
	// itself.
	Failed bool `json:"failed,omitempty"`
}

// Ops makes a patch of RFC 6902 operations.
func Ops(ops json.RawMessage) Patch { return Patch{Ops: ops} }

// Drop removes what a pointer names.
func Drop(pointer string) Patch {
	return Ops(encodeOwn(operation{Op: "remove", Path: pointer}))
}

// Set replaces what a pointer names, or adds it as a member or, with a last
// "-", as an element. value is any JSON.
func Set(pointer string, value json.RawMessage) (Patch, error) {
	canon, err := ledger.Canon(value)
	if err != nil {
		return Patch{}, &Error{Kind: BadPatch, What: fmt.Sprintf("the value for %s", quotePointer(pointer)), Err: err,
			Hint: `a text needs its quotes: /status="empty"`}
	}
	return Ops(encodeOwn(operation{Op: "set", Path: pointer, Value: canon})), nil
}

// Replace puts a document in place of the whole.
func Replace(doc json.RawMessage) Patch { return Patch{Replace: doc} }

// Empty makes a tool result hold nothing.
func Empty() Patch { return Named("empty") }

// Fail makes the call fail with a text.
func Fail(text string) Patch { return Patch{Error: &text} }

// Named makes a patch of a fault.
func Named(name string) Patch { return Patch{Fault: name} }

// InsertCall adds a call to a model turn, and its return.
func InsertCall(tool string, input, result json.RawMessage) Patch {
	return Patch{Insert: &Insert{Tool: tool, Input: input, Result: result}}
}

// For returns the patch for the event with this seq.
func (p Patch) For(seq int) Patch {
	p.At = seq
	return p
}

// encodeOwn encodes an operation whose value is canonical.
func encodeOwn(o operation) json.RawMessage {
	b, _ := encodeOps([]operation{o}) // texts and canonical JSON always encode
	return b
}

// Join makes one patch of several, carried out in order: a pointer of a later
// one names what the earlier ones left. More than one can be joined only if
// all are operations.
func Join(patches ...Patch) (Patch, error) {
	switch len(patches) {
	case 0:
		return Patch{}, fault(BadPatch, formsHint, "expected a patch, found none")
	case 1:
		return patches[0], nil
	}
	out := patches[0]
	var all []operation
	for _, p := range patches {
		ops, err := p.read()
		if err != nil {
			return Patch{}, err
		}
		if p.form() != "ops" {
			return Patch{}, fault(BadPatch, "fork the fork to edit one run twice", "only operations (--drop, --set, a patch file) can be combined, found %s", p.form())
		}
		all = append(all, ops...)
	}
	out.Ops, _ = encodeOps(all) // parsed, so they encode
	return out, nil
}

// form names the one edit a patch has, or "" for none and "several".
func (p Patch) form() string {
	form := ""
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"ops", len(p.Ops) > 0}, {"fault", p.Fault != ""}, {"replace", len(p.Replace) > 0},
		{"error", p.Error != nil}, {"insert", p.Insert != nil},
	} {
		switch {
		case f.has && form != "":
			return "several"
		case f.has:
			form = f.name
		}
	}
	return form
}

// JSON returns the patch as canonical JSON. Parse reads it back.
func (p Patch) JSON() (json.RawMessage, error) {
	b, err := ledger.CanonValue(p)
	if err != nil {
		return nil, &Error{Kind: BadPatch, What: "encode it", Hint: "values of a patch are JSON; a text needs its quotes", Err: err}
	}
	return b, nil
}

// Parse reads a patch file: an array of RFC 6902 operations, or the object
// that JSON gives.
func Parse(b []byte) (Patch, error) {
	const hint = `write RFC 6902, like [{"op":"remove","path":"/deploys/1"}], or an object like {"at":7,"fault":"missing"}`
	canon, err := ledger.Canon(bytes.TrimPrefix(b, []byte("\ufeff")))
	if err != nil {
		return Patch{}, &Error{Kind: BadPatch, What: "the patch file", Err: err, Hint: hint}
	}
	var p Patch
	if canon[0] == '[' {
		p.Ops = canon
	} else {
		dec := json.NewDecoder(bytes.NewReader(canon))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&p); err != nil {
			return Patch{}, &Error{Kind: BadPatch, What: "the patch file", Err: err, Hint: hint}
		}
	}
	if err := p.check(); err != nil {
		return Patch{}, err
	}
	return p, nil
}

const formsHint = "give --drop, --set, --replace, --empty, --error, --fault or --insert"

// check makes sure of the form, whatever the event.
func (p Patch) check() *Error {
	_, err := p.read()
	return err
}

// read is check, and returns the operations of a patch that has them.
func (p Patch) read() ([]operation, *Error) {
	switch p.form() {
	case "":
		return nil, fault(BadPatch, formsHint, "expected one of ops, fault, replace, error and insert, found none")
	case "several":
		return nil, fault(BadPatch, "fork the fork to edit one run twice", "expected one of ops, fault, replace, error and insert, found several")
	case "ops":
		return parseOps(p.Ops)
	case "fault":
		_, err := find(p.Fault)
		return nil, err
	case "replace":
		if _, err := ledger.Canon(p.Replace); err != nil {
			return nil, &Error{Kind: BadPatch, What: "the document to replace with", Hint: "give JSON; a text needs its quotes", Err: err}
		}
	case "insert":
		return nil, p.Insert.check()
	}
	return nil, nil
}

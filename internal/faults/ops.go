package faults

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"investigator/internal/ledger"
)

// operation is one RFC 6902 operation, or our "set".
type operation struct {
	Op    string
	Path  string
	From  string          // of move and copy
	Value json.RawMessage // "null" is a value, nil is none
}

// appendJSON appends the operation. It writes "from" for what moves even when
// it is "", the pointer to the whole document.
func (o operation) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if o.hasFrom() {
		b = append(ledger.AppendString(append(b, `"from":`...), o.From), ',')
	}
	b = ledger.AppendString(append(b, `"op":`...), o.Op)
	b = ledger.AppendString(append(b, `,"path":`...), o.Path)
	if o.Value != nil {
		b = append(append(b, `,"value":`...), o.Value...)
	}
	return append(b, '}')
}

func (o operation) hasFrom() bool { return o.Op == "move" || o.Op == "copy" }

func (o operation) String() string {
	if o.hasFrom() {
		return fmt.Sprintf("%s %s to %s", o.Op, quotePointer(o.From), quotePointer(o.Path))
	}
	return fmt.Sprintf("%s %s", o.Op, quotePointer(o.Path))
}

// parseOps reads an array of operations and checks their form.
func parseOps(raw json.RawMessage) ([]operation, *Error) {
	const hint = `write them like [{"op":"remove","path":"/deploys/1"}]`
	canon, err := ledger.InCanon(raw)
	if err != nil {
		return nil, &Error{Kind: BadPatch, What: "expected an array of RFC 6902 operations", Hint: hint, Err: err}
	}
	list := ledger.Elements(canon)
	if len(list) == 0 {
		return nil, fault(BadPatch, hint, "expected an array of RFC 6902 operations, found %s", abbreviate(canon))
	}
	ops := make([]operation, len(list))
	for i, item := range list {
		if err := ops[i].parse(item); err != nil {
			err.What = fmt.Sprintf("operation %d: %s", i, err.What)
			return nil, err
		}
	}
	return ops, nil
}

func (o *operation) parse(item json.RawMessage) *Error {
	const hint = `write it like {"op":"replace","path":"/status","value":"empty"}`
	have, wrong := readOperation(item)
	if wrong != nil {
		return fault(BadPatch, hint, "expected an object with op and path, found %s", abbreviate(item))
	}
	switch {
	case have.Op == nil:
		return fault(BadPatch, hint, `expected a member "op", found %s`, abbreviate(item))
	case have.Path == nil:
		return fault(BadPatch, hint, `expected a member "path", found %s`, abbreviate(item))
	}
	o.Op, o.Path = *have.Op, *have.Path
	switch o.Op {
	case "add", "replace", "test", "set":
		if have.Value == nil {
			return fault(BadPatch, hint, `%s: expected a member "value", found none`, o)
		}
		o.Value = have.Value
	case "move", "copy":
		if have.From == nil {
			return fault(BadPatch, `write it like {"from":"/deploys/1","op":"move","path":"/deploys/0"}`, `%s: expected a member "from", found none`, o)
		}
		o.From = *have.From
		if _, err := tokens(o.From); err != nil {
			return err
		}
	case "remove":
	default:
		return fault(BadPatch, "one of add, remove, replace, move, copy, test, set", "expected an operation, found %q", o.Op)
	}
	_, err := tokens(o.Path)
	return err
}

// given are the members of an operation as they were given.
type given struct {
	Op    *string         `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

// readOperation decodes an operation. Nearly all have their names and texts
// spelled plainly; encoding/json reads the others.
func readOperation(item json.RawMessage) (have given, err error) {
	plain := true
	err = ledger.EachMember(item, func(name []byte, value json.RawMessage) {
		text, ok := ledger.PlainString(value)
		switch string(name) {
		case "op":
			have.Op = &text
		case "path":
			have.Path = &text
		case "from":
			have.From = &text
		case "value":
			have.Value, ok = value, true
		default:
			ok = false
		}
		plain = plain && ok
	})
	if err == nil && plain {
		return have, nil
	}
	have = given{}
	err = json.Unmarshal(item, &have)
	return have, err
}

func encodeOps(ops []operation) (json.RawMessage, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	b := []byte{'['}
	for i, o := range ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = o.appendJSON(b)
	}
	return ledger.InCanon(append(b, ']'))
}

// applyOps applies operations to a canonical document. It returns the canonical
// result and the operations as they were carried out, in plain RFC 6902.
func applyOps(doc json.RawMessage, ops []operation) (json.RawMessage, []operation, *Error) {
	done := slices.Clone(ops)
	for i := range done {
		if err := done[i].settle(doc); err != nil {
			err.What = fmt.Sprintf("operation %d, %s, does not apply: %s", i, ops[i], err.What)
			return nil, nil, err
		}
		next, err := applyOne(doc, done[i])
		if err != nil {
			return nil, nil, &Error{Kind: NotApplicable, What: fmt.Sprintf("operation %d, %s, does not apply", i, ops[i]), Err: err, Hint: "replace the value around it"}
		}
		doc = next
	}
	return doc, done, nil
}

// settle turns "set" into what it means for doc and makes sure that the
// operation applies by RFC 6901 and 6902. json-patch is laxer: it counts
// negative indices from the end, takes "01" and "+1" for 1, and reads an empty
// token as the value itself.
func (o *operation) settle(doc []byte) *Error {
	path, err := tokens(o.Path)
	if err != nil {
		return err
	}
	if slices.Contains(path, "") || strings.HasSuffix(o.From, "/") || strings.Contains(o.From, "//") {
		return fault(NotApplicable, "replace the object around it", "members with an empty name cannot be pointed at")
	}
	value, n := walk(doc, path)
	exists := n == len(path)
	if o.Op == "set" {
		o.Op = "add"
		if exists {
			o.Op = "replace"
		} else if parent, m := walk(doc, path[:len(path)-1]); m == len(path)-1 && parent[0] == '[' && path[m] != "-" {
			err := missing(doc, path)
			err.Hint = "to add at the end point at " + strconv.Quote(join(path[:m])+"/-")
			return err
		}
	}
	switch o.Op {
	case "add":
		return canAdd(doc, path)
	case "copy":
		return o.settleFrom(doc)
	case "move":
		if strings.HasPrefix(o.Path, o.From+"/") {
			return fault(NotApplicable, "copy it instead", "a value cannot be moved into itself")
		}
		return o.settleFrom(doc)
	case "remove":
		if len(path) == 0 {
			return fault(NotApplicable, "replace it instead", "the whole document cannot be removed")
		}
	}
	if !exists {
		return missing(doc, path)
	}
	if o.Op == "test" && string(value) != string(o.Value) {
		return fault(NotApplicable, "the patch was made for another event; values are compared as they are spelled", "expected %s, found %s", abbreviate(o.Value), abbreviate(value))
	}
	return nil
}

// settleFrom checks where a move or copy comes from. Where it goes to depends
// on what the removal leaves, so for a move the library has the last word.
func (o *operation) settleFrom(doc []byte) *Error {
	from, err := tokens(o.From)
	if err != nil {
		return err
	}
	if _, n := walk(doc, from); n < len(from) {
		return missing(doc, from)
	}
	path, err := tokens(o.Path)
	if err != nil {
		return err
	}
	if o.Op == "move" && len(from) > 0 {
		if without, err := applyOne(doc, operation{Op: "remove", Path: o.From}); err == nil {
			doc = without
		}
	}
	return canAdd(doc, path)
}

func canAdd(doc []byte, path []string) *Error {
	if len(path) == 0 {
		return nil
	}
	last := len(path) - 1
	parent, n := walk(doc, path[:last])
	switch {
	case n < last:
		return missing(doc, path)
	case parent[0] == '{':
		return nil
	case parent[0] == '[' && (path[last] == "-" || isIndex(path[last], len(elements(parent))+1)):
		return nil
	}
	return missing(doc, path)
}

// applyOne carries one settled operation out. A removal and a replacement, which
// are what a sweep does by the thousand, are cut out of the text; json-patch does
// the others, and would do these to the same effect.
func applyOne(doc json.RawMessage, o operation) (json.RawMessage, error) {
	path, wrong := tokens(o.Path)
	switch {
	case wrong != nil:
		return nil, wrong
	case o.Op == "test":
		return doc, nil // settle compared the bytes
	case o.Op == "remove" && len(path) > 0:
		return cut(doc, path)
	case o.Op == "replace":
		value, err := ledger.InCanon(o.Value)
		at, n := locate(doc, path)
		if err != nil || n < len(path) {
			return nil, cmp.Or(err, errNothing)
		}
		return slices.Concat(doc[:at.start], value, doc[at.end:]), nil
	}
	return handOver(doc, o)
}

// errNothing cannot happen: settle looked.
var errNothing = errors.New("the pointer names nothing")

// cut takes a member or an element out, with the comma that parts it from
// another.
func cut(doc []byte, path []string) (json.RawMessage, error) {
	last := len(path) - 1
	parent, n := locate(doc, path[:last])
	inside := doc[parent.start:parent.end]
	at, found := locateChild(inside, path[last])
	if n < last || !found {
		return nil, errNothing
	}
	if inside[0] == '{' {
		at.start -= len(ledger.AppendString(nil, path[last])) + len(`:`)
	}
	if inside[at.start-1] == ',' {
		at.start--
	} else if inside[at.end] == ',' {
		at.end++
	}
	return slices.Concat(doc[:parent.start+at.start], doc[parent.start+at.end:]), nil
}

// handOver lets json-patch apply an operation. The document travels as a member
// of an object, because the library cannot replace a root by a scalar.
// Operations are built by hand rather than by DecodePatch, which reads values
// as float64 and so refuses 1e400; Apply itself moves raw bytes.
func handOver(doc json.RawMessage, o operation) (json.RawMessage, error) {
	const root = "/v"
	op := jsonpatch.Operation{"op": rawString(o.Op), "path": rawString(root + o.Path)}
	switch o.Op {
	case "move", "copy":
		op["from"] = rawString(root + o.From)
	case "add", "replace":
		op["value"] = &o.Value
	}
	opts := jsonpatch.NewApplyOptions()
	opts.SupportNegativeIndices = false
	opts.EscapeHTML = false
	whole := slices.Concat([]byte(`{"v":`), doc, []byte{'}'})
	out, err := jsonpatch.Patch{op}.ApplyWithOptions(whole, opts)
	if err != nil {
		return nil, err
	}
	if out, err = ledger.Canon(out); err != nil {
		return nil, err
	}
	value, found := child(out, "v")
	if !found {
		return nil, fmt.Errorf("the document is gone")
	}
	return value, nil
}

func rawString(s string) *json.RawMessage {
	raw := json.RawMessage(ledger.AppendString(nil, s))
	return &raw
}

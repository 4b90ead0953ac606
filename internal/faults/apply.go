package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// Edited is an event after its patch.
type Edited struct {
	// Event is the event as the fork will have it. Its In is the old one.
	Event ledger.Event
	// Return is what the edge gives in place of the recorded return, origin
	// Patched. For run.started it is empty: the fork starts from Event.Data.
	Return edge.Return
	// Ops is what was done, in RFC 6902 operations on what pointers point into.
	Ops json.RawMessage
	// Notes says what else was changed so that the conversation stays valid.
	Notes []string
	// Dropped lists the reasoning blocks that are gone, by their pointers in
	// the recorded turn.
	Dropped []string
	// Inserted is the call that an Insert added, nil for other patches.
	Inserted *Inserted
}

// Inserted is a call that a patch added to a turn. When the loop makes it, at
// position Pos of that turn, its return is Return.
type Inserted struct {
	Pos    int
	Use    converse.ToolUse
	Return edge.Return
}

// Check reports why the patch cannot be applied to e, or nil. The error is an
// *Error.
func (p Patch) Check(e ledger.Event) error {
	_, err := p.Apply(e)
	return err
}

// Apply returns e as the patch makes it. It does not look at At, nor modify e.
// The error is an *Error with the event's seq.
func (p Patch) Apply(e ledger.Event) (Edited, error) {
	out, err := p.apply(e)
	if err != nil {
		return Edited{}, at(e.Seq, err)
	}
	return out, nil
}

func (p Patch) apply(e ledger.Event) (Edited, *Error) {
	ops, err := p.read()
	if err != nil {
		return Edited{}, err
	}
	if !Patchable(e.Type) {
		return Edited{}, fault(NotPatchable, instead(e.Type), "%s follows from other events and cannot be patched", e.Type)
	}
	s, err := open(e)
	if err != nil {
		return Edited{}, err
	}
	if err := s.edit(p, ops); err != nil {
		return Edited{}, err
	}
	if err := s.close(); err != nil {
		return Edited{}, err
	}
	if s.out.Event.Type == s.event.Type && string(s.out.Event.Data) == string(s.event.Data) {
		return Edited{}, p.noChange()
	}
	if depthOf(s.out.Event.Data) > maxDepth {
		return Edited{}, fault(Refused, "nest the value less deeply", "the event would be nested deeper than %d, which no ledger holds", maxDepth)
	}
	return s.out, nil
}

// maxDepth is how deep data may nest within a ledger line, an object itself,
// so that encoding/json still reads the line.
const maxDepth = 9999

func (p Patch) noChange() *Error {
	if p.Fault != "" {
		return fault(NoChange, "choose another event or another fault", "the fault %s changes nothing here", p.Fault)
	}
	return fault(NoChange, "point at something else, or give another value", "the patch changes nothing")
}

// Patchable reports whether events of a type take patches.
func Patchable(eventType string) bool {
	switch eventType {
	case ledger.ToolReturned, ledger.ModelResponded, ledger.ModelFailed, ledger.RunStarted:
		return true
	}
	return false
}

// instead says which kind of event to patch in place of a derived one.
func instead(eventType string) string {
	switch eventType {
	case ledger.ToolCalled:
		return "patch the model turn that made the call, or the tool.returned that answers it"
	case ledger.RunFinished:
		return "patch the last model turn, which holds the verdict, or a tool result before it"
	}
	return "patch a tool.returned, a model.responded, or run.started"
}

// edit under way: doc is what pointers point into.
type edit struct {
	event  ledger.Event
	doc    json.RawMessage
	failed bool
	ops    []operation
	out    Edited

	call edge.Call // tool.returned: what its data says of the call
}

func open(e ledger.Event) (*edit, *Error) {
	data, err := ledger.InCanon(e.Data)
	if err != nil {
		return nil, &Error{Kind: NotPatchable, What: "its data", Hint: damagedHint, Err: err}
	}
	e.Data = data
	s := &edit{event: e, doc: data, failed: e.Type == ledger.ModelFailed}
	s.out.Event = e
	if e.Type == ledger.ToolReturned {
		return s, s.openResult()
	}
	return s, nil
}

const damagedHint = "verify the cassette"

func (s *edit) openResult() *Error {
	data, err := readReturned(s.event.Data)
	if err != nil || data.Result == nil {
		return fault(NotPatchable, damagedHint, "expected the data of tool.returned with a result, found %s", abbreviate(s.event.Data))
	}
	s.doc, s.failed = data.Result, data.Status == statusError
	s.call = edge.Call{Kind: edge.Tool, Turn: data.Turn, Pos: data.Pos, Use: converse.ToolUse{Name: data.Tool}}
	return nil
}

// returned is the data of tool.returned, as loop.ReturnedData writes it.
type returned struct {
	Pos    int             `json:"pos"`
	Result json.RawMessage `json:"result"`
	Status string          `json:"status"`
	Tool   string          `json:"tool"`
	Turn   int             `json:"turn"`
}

// readReturned leaves the result as it is, which encoding/json would read to its
// end; of what is not spelled as expected it makes up its mind.
func readReturned(data json.RawMessage) (r returned, err error) {
	plain := true
	err = ledger.EachMember(data, func(name []byte, value json.RawMessage) {
		ok := true
		switch string(name) {
		case "pos":
			r.Pos, ok = smallNumber(value)
		case "result":
			r.Result = value
		case "status":
			r.Status, ok = ledger.PlainString(value)
		case "tool":
			r.Tool, ok = ledger.PlainString(value)
		case "turn":
			r.Turn, ok = smallNumber(value)
		default:
			ok = false
		}
		plain = plain && ok
	})
	if err == nil && plain {
		return r, nil
	}
	r = returned{}
	err = json.Unmarshal(data, &r)
	return r, err
}

func smallNumber(value []byte) (int, bool) {
	n, err := strconv.Atoi(string(value))
	return n, err == nil
}

// edit changes doc as the patch says, whose operations are given beside it.
func (s *edit) edit(p Patch, ops []operation) *Error {
	switch p.form() {
	case "ops":
		return s.apply(ops)
	case "fault":
		return s.applyFault(p.Fault)
	case "replace":
		canon, _ := ledger.Canon(p.Replace) // check saw it
		return s.replace(canon)
	case "error":
		return s.fail("ModelErrorException", *p.Error, 424)
	case "insert":
		return s.insert(*p.Insert)
	}
	return fault(BadPatch, formsHint, "unknown form of patch")
}

// apply carries operations out. A tool's own status decides whether the call
// failed, but only a patch that touches it, or puts another document in its
// place, decides anew: foreign tools may use the word in another sense.
func (s *edit) apply(ops []operation) *Error {
	before := statusOf(s.doc)
	doc, done, err := applyOps(s.doc, ops)
	if err != nil {
		return err
	}
	s.doc, s.ops = doc, append(s.ops, done...)
	whole := slices.ContainsFunc(done, func(o operation) bool { return o.Path == "" && o.Op != "test" })
	if after := statusOf(doc); whole || after != before {
		s.failed = after == statusError
	}
	return nil
}

func (s *edit) replace(doc json.RawMessage) *Error {
	return s.apply([]operation{{Op: "replace", Path: "", Value: doc}})
}

const statusError = "error"

// fail makes the call fail. name and status are for a model.
func (s *edit) fail(name, text string, status int) *Error {
	var body json.RawMessage
	switch s.event.Type {
	case ledger.ToolReturned:
		body, _ = ledger.CanonValue(map[string]any{"error": map[string]string{"message": text}, "status": statusError}) // texts encode
	case ledger.RunStarted:
		return fault(NotPatchable, "set a member of it instead, like /task or /model", "run.started is not a call and cannot fail")
	default:
		body = edge.FailureBody(edge.Failure{Name: name, Message: text, Status: status})
	}
	return s.replace(body)
}

// statusOf returns the text member "status" of an object, "" if there is none.
func statusOf(doc []byte) string {
	value, found := child(doc, "status")
	if !found || value[0] != '"' {
		return ""
	}
	var s string
	_ = json.Unmarshal(value, &s) // canonical text decodes
	return s
}

// close makes the event and the return of the edited document.
func (s *edit) close() *Error {
	var err error
	if s.out.Ops, err = encodeOps(s.ops); err != nil {
		return &Error{Kind: BadPatch, What: "encode what was done", Hint: "values of a patch are JSON", Err: err}
	}
	switch s.event.Type {
	case ledger.ToolReturned:
		s.out.Return = edge.Return{Body: s.doc, Failed: s.failed, Origin: edge.Patched}
		s.out.Event.Data = loop.ReturnedData(s.call, s.out.Return)
		s.noteFailure()
		return nil
	case ledger.RunStarted:
		return s.closeStart()
	}
	return s.closeModel()
}

// noteFailure says when the patch made a failed call succeed or the other way.
func (s *edit) noteFailure() {
	status, _ := child(s.event.Data, "status")
	switch failed := string(status) == `"error"`; {
	case failed && !s.failed:
		s.note("the call counts as answered now, no longer as failed")
	case !failed && s.failed:
		s.note("the call counts as failed now")
	}
}

func (s *edit) closeStart() *Error {
	if err := s.knownMembers(); err != nil {
		return err
	}
	_, first, err := loop.New(s.doc)
	if err != nil {
		return &Error{Kind: Refused, What: "no run can start from the result", Hint: "a run needs a task, a model and a request", Err: err}
	}
	s.out.Event.Data = first.Data
	return nil
}

// knownMembers refuses a patch that adds what no run looks at, like /modle.
func (s *edit) knownMembers() *Error {
	strict := func(doc []byte) error {
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.DisallowUnknownFields()
		return dec.Decode(new(loop.Start))
	}
	err := strict(s.doc)
	if err == nil || !strings.Contains(err.Error(), "unknown field") || strict(s.event.Data) != nil {
		return nil // what else is wrong loop.New says
	}
	return &Error{Kind: Refused, What: "run.started", Err: err, Hint: "members are task, context, now, model, request, cache, effects, limits, price and prompt"}
}

// closeModel takes the document as a failure if it is one and as a turn if not,
// whatever was recorded.
func (s *edit) closeModel() *Error {
	_, answered := child(s.doc, "output")
	_, s.failed = child(s.doc, "error")
	s.failed = s.failed && !answered
	if s.failed {
		if f, err := edge.ParseFailure(s.doc); err != nil || f.Name == "" {
			return fault(Refused, `like {"error":{"message":"…","name":"ThrottlingException","status":429}}`, "expected the failure of a model call, found %s", abbreviate(s.doc))
		}
	} else if err := s.settleTurn(); err != nil {
		return err
	}
	s.out.Event.Type = ledger.ModelResponded
	if s.failed {
		s.out.Event.Type = ledger.ModelFailed
	}
	s.out.Event.Data = s.doc
	s.out.Return = edge.Return{Body: s.doc, Failed: s.failed, Origin: edge.Patched}
	return nil
}

func (s *edit) note(format string, args ...any) {
	s.out.Notes = append(s.out.Notes, fmt.Sprintf(format, args...))
}

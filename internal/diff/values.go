package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"investigator/internal/ledger"
)

// Kinds of changes.
const (
	Added     = "added"     // a member or element that the old document lacks
	Dropped   = "dropped"   // a member or element that the new document lacks
	Changed   = "changed"   // another value in the same place
	Truncated = "truncated" // the new string, or an array that lost more than three records, is a proper prefix of the old one
)

// Change is one smallest differing part of two documents.
type Change struct {
	Kind string `json:"kind"` // one of the kinds above
	// Path is a JSON pointer: into the new document if Kind is Added, and into
	// the old one otherwise.
	Path string          `json:"path"`
	Old  json.RawMessage `json:"old,omitempty"` // canonical; nil if Kind is Added
	New  json.RawMessage `json:"new,omitempty"` // canonical; nil if Kind is Dropped
}

// Op is one operation of a JSON Patch (RFC 6902).
type Op struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Values returns the smallest parts in which b differs from a, in document
// order; none if they hold the same JSON. The error names the document, "old"
// for a and "new" for b, and the byte at which it is not JSON.
func Values(a, b json.RawMessage) ([]Change, error) {
	if bytes.Equal(a, b) && json.Valid(a) {
		return nil, nil
	}
	old, err := parse(a)
	if err != nil {
		return nil, fmt.Errorf("read old document: %w", err)
	}
	now, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("read new document: %w", err)
	}
	w := walk{a: old, b: now}
	w.value(0, 0)
	return w.changes, nil
}

// Ops returns operations that turn the old document into the new one when they
// are applied in order: replacements while all old paths hold, then removals
// from the back, then additions from the front.
func Ops(changes []Change) []Op {
	ops := make([]Op, 0, len(changes))
	for _, c := range changes {
		if c.Kind == Changed || c.Kind == Truncated {
			ops = append(ops, Op{Op: "replace", Path: c.Path, Value: c.New})
		}
	}
	for _, c := range slices.Backward(changes) {
		if c.Kind == Dropped {
			ops = append(ops, Op{Op: "remove", Path: c.Path})
		}
	}
	for _, c := range changes {
		if c.Kind == Added {
			ops = append(ops, Op{Op: "add", Path: c.Path, Value: c.New})
		}
	}
	return ops
}

// walk compares two documents. pathA and pathB are the pointers of the values
// at hand in either; they differ behind an inserted or removed element.
type walk struct {
	a, b         *tree
	pathA, pathB []byte
	changes      []Change
}

func (w *walk) value(i, j int) {
	x, y := w.a.raw(i), w.b.raw(j)
	if bytes.Equal(x, y) {
		return
	}
	switch {
	case x[0] != y[0]:
		w.changed(Changed, i, j)
	case x[0] == '{' && w.related(i, j):
		w.object(i, j)
	case x[0] == '[':
		w.array(i, j)
	case x[0] == '"' && bytes.HasPrefix(x, y[:len(y)-1]):
		w.changed(Truncated, i, j)
	default:
		w.changed(Changed, i, j)
	}
}

// related reports whether two objects share a member name or one is empty. If
// not, the one was replaced by the other as a whole.
func (w *walk) related(i, j int) bool {
	if len(w.a.raw(i)) == 2 || len(w.b.raw(j)) == 2 {
		return true
	}
	shared, _, _ := w.overlap(i, j)
	return shared > 0
}

func (w *walk) changed(kind string, i, j int) {
	w.changes = append(w.changes, Change{Kind: kind, Path: string(w.pathA), Old: w.a.copy(i), New: w.b.copy(j)})
}

func (w *walk) dropped(i int) {
	w.changes = append(w.changes, Change{Kind: Dropped, Path: string(w.pathA), Old: w.a.copy(i)})
}

func (w *walk) added(j int) {
	w.changes = append(w.changes, Change{Kind: Added, Path: string(w.pathB), New: w.b.copy(j)})
}

// members calls each for the members of two objects in the order of their
// names, with -1 for the side that lacks one.
func (w *walk) members(i, j int, each func(x, y int)) {
	x, y := i+1, j+1
	for x < w.a.nodes[i].next || y < w.b.nodes[j].next {
		switch order := w.order(i, j, x, y); {
		case order < 0:
			each(x, -1)
			x = w.a.nodes[x].next
		case order > 0:
			each(-1, y)
			y = w.b.nodes[y].next
		default:
			each(x, y)
			x, y = w.a.nodes[x].next, w.b.nodes[y].next
		}
	}
}

func (w *walk) order(i, j, x, y int) int {
	switch {
	case x >= w.a.nodes[i].next:
		return 1
	case y >= w.b.nodes[j].next:
		return -1
	}
	return bytes.Compare(w.a.name(x), w.b.name(y))
}

// overlap counts the members two objects share by name, those of them that are
// equal, and all names.
func (w *walk) overlap(i, j int) (shared, equal, all int) {
	w.members(i, j, func(x, y int) {
		all++
		if x < 0 || y < 0 {
			return
		}
		shared++
		if bytes.Equal(w.a.raw(x), w.b.raw(y)) {
			equal++
		}
	})
	return shared, equal, all
}

func (w *walk) object(i, j int) {
	w.members(i, j, func(x, y int) {
		pathA, pathB := w.pathA, w.pathB
		if x >= 0 {
			pathA = appendToken(pathA, w.a.name(x))
		}
		if y >= 0 {
			pathB = appendToken(pathB, w.b.name(y))
		}
		w.step(pathA, pathB, x, y)
	})
}

// namedRecords is how many records may be missing from the end of an array for
// each to be named: dropped /deploys/1 is an address one can cite. Beyond that
// the array is called truncated.
const namedRecords = 3

func (w *walk) array(i, j int) {
	as, bs := w.a.children(i), w.b.children(j)
	lost := len(as) - len(bs)
	if (lost > namedRecords || lost > 0 && len(bs) == 0) && w.same(as[:len(bs)], bs) {
		w.changed(Truncated, i, j)
		return
	}
	for _, p := range w.align(as, bs) {
		pathA, pathB, x, y := w.pathA, w.pathB, -1, -1
		if p.a >= 0 {
			pathA, x = appendIndex(w.pathA, p.a), as[p.a]
		}
		if p.b >= 0 {
			pathB, y = appendIndex(w.pathB, p.b), bs[p.b]
		}
		w.step(pathA, pathB, x, y)
	}
}

// step compares two children (-1 for a side that lacks one) at their paths.
func (w *walk) step(pathA, pathB []byte, x, y int) {
	lenA, lenB := len(w.pathA), len(w.pathB)
	w.pathA, w.pathB = pathA, pathB
	switch {
	case y < 0:
		w.dropped(x)
	case x < 0:
		w.added(y)
	default:
		w.value(x, y)
	}
	w.pathA, w.pathB = w.pathA[:lenA], w.pathB[:lenB]
}

func (w *walk) same(as, bs []int) bool {
	for k := range as {
		if !bytes.Equal(w.a.raw(as[k]), w.b.raw(bs[k])) {
			return false
		}
	}
	return true
}

// appendToken appends a reference token, escaped as RFC 6901 asks.
func appendToken(path, token []byte) []byte {
	path = append(path, '/')
	for _, c := range token {
		switch c {
		case '~':
			path = append(path, "~0"...)
		case '/':
			path = append(path, "~1"...)
		default:
			path = append(path, c)
		}
	}
	return path
}

func appendIndex(path []byte, k int) []byte {
	return strconv.AppendInt(append(path, '/'), int64(k), 10)
}

// parse canonicalises a document and notes where its values stand.
func parse(doc []byte) (*tree, error) {
	text, err := ledger.Canon(doc)
	if err != nil {
		return nil, err
	}
	return newTree(text), nil
}

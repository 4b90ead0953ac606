package rule

import (
	"bytes"
	"encoding/json"

	"investigator/internal/ledger"
)

// node is one value of canonical JSON, not decoded. The nil node is an absent
// value; every method of it gives nothing. Most of a conversation is never
// decoded, which is what keeps a turn cheap.
type node []byte

func (n node) is(open byte) bool { return len(n) >= 2 && n[0] == open }

// member finds the member of an object that begins at pos. next is -1 at the
// end of the object, or where the text is not canonical.
func (n node) member(pos int) (name, value node, next int) {
	if pos >= len(n)-1 || n[pos] != '"' {
		return nil, nil, -1
	}
	colon := ledger.SkipValue(n, pos)
	if colon < 0 || colon >= len(n) || n[colon] != ':' {
		return nil, nil, -1
	}
	end := ledger.SkipValue(n, colon+1)
	if end <= colon+1 || end >= len(n) {
		return nil, nil, -1
	}
	return n[pos+1 : colon-1], n[colon+1 : end], end + 1
}

// get returns the member of an object by name.
func (n node) get(name string) node {
	if !n.is('{') {
		return nil
	}
	for pos := 1; ; {
		key, value, next := n.member(pos)
		if next < 0 {
			return nil
		}
		if string(key) == name {
			return value
		}
		pos = next
	}
}

// path is get, several members deep.
func (n node) path(names ...string) node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// items yields the elements of an array with their indices.
func (n node) items() func(yield func(int, node) bool) {
	return func(yield func(int, node) bool) {
		if !n.is('[') {
			return
		}
		for i, pos := 0, 1; pos < len(n)-1; i++ {
			end := ledger.SkipValue(n, pos)
			if end <= pos || end >= len(n) || !yield(i, n[pos:end]) {
				return
			}
			pos = end + 1
		}
	}
}

// keys yields the names of an object's members.
func (n node) keys() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !n.is('{') {
			return
		}
		for pos := 1; ; {
			key, _, next := n.member(pos)
			if next < 0 || !yield(string(key)) {
				return
			}
			pos = next
		}
	}
}

// text returns the value of a string, "" for anything else.
func (n node) text() string {
	if !n.is('"') {
		return ""
	}
	if bytes.IndexByte(n, '\\') < 0 {
		return string(n[1 : len(n)-1])
	}
	var s string
	if json.Unmarshal(n, &s) != nil {
		return ""
	}
	return s
}

// number returns the text of a number as it was written, "" for anything else.
func (n node) number() string {
	if len(n) == 0 || n[0] != '-' && (n[0] < '0' || n[0] > '9') {
		return ""
	}
	return string(n)
}

// strings returns the strings of an array.
func (n node) strings() []string {
	var out []string
	for _, item := range n.items() {
		if item.is('"') {
			out = append(out, item.text())
		}
	}
	return out
}

// parseNode reads JSON that stands inside a text.
func parseNode(text string) node {
	canon, err := ledger.Canon([]byte(text))
	if err != nil {
		return nil
	}
	return canon
}

package rule

import (
	"bytes"
	"encoding/json"

	"investigator/internal/ledger"
)

// node is one value of canonical JSON, not decoded, and maybe what follows it:
// where a value ends is looked for only when somebody has to know. The nil node
// is an absent value; every method of it gives nothing. Most of a conversation
// is never decoded, which is what keeps a turn cheap.
type node []byte

func (n node) is(open byte) bool { return len(n) >= 2 && n[0] == open }

// alone cuts off what follows the value.
func (n node) alone() node {
	if end := skip(n, 0); end > 0 {
		return n[:end]
	}
	return nil
}

// skip returns the offset after the value that starts at pos, or -1. It does
// what ledger.SkipValue does for canonical text, in a third of the time: most of
// a conversation is long strings, and their ends can be searched for.
func skip(b []byte, pos int) int {
	if pos >= len(b) {
		return -1
	}
	switch b[pos] {
	case '"':
		return skipString(b, pos)
	case '{', '[':
		return skipNested(b, pos)
	case ',', ':', '}', ']':
		return -1
	}
	for pos < len(b) && b[pos] != ',' && b[pos] != '}' && b[pos] != ']' {
		pos++
	}
	return pos
}

func skipNested(b []byte, pos int) int {
	for depth := 0; pos < len(b); pos++ {
		switch b[pos] {
		case '"':
			if pos = skipString(b, pos) - 1; pos < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return pos + 1
			}
		}
	}
	return -1
}

// skipString looks for the quote with an even number of backslashes before it.
func skipString(b []byte, pos int) int {
	for at := pos + 1; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		at += n + 1
		slashes := 0
		for i := at - 2; i > pos && b[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

// member splits the member of an object that begins at pos into its name and
// its value with all that follows. The name is nil at the end of the object, or
// where the text is not canonical.
func (n node) member(pos int) (name, value node) {
	if pos >= len(n) || n[pos] != '"' {
		return nil, nil
	}
	colon := skipString(n, pos)
	if colon < 0 || colon+1 >= len(n) || n[colon] != ':' {
		return nil, nil
	}
	return n[pos+1 : colon-1 : colon-1], n[colon+1:]
}

// after returns the offset of what comes after the value that rest begins with,
// one comma further; -1 where there is nothing more.
func (n node) after(rest node) int {
	end := skip(rest, 0)
	if end <= 0 || end >= len(rest) || rest[end] != ',' {
		return -1
	}
	return len(n) - len(rest) + end + 1
}

// get returns the member of an object by name.
func (n node) get(name string) node {
	if !n.is('{') {
		return nil
	}
	for pos := 1; pos > 0; {
		key, value := n.member(pos)
		if key == nil {
			return nil
		}
		if string(key) == name {
			return value
		}
		pos = n.after(value)
	}
	return nil
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
		if !n.is('[') || n[1] == ']' {
			return
		}
		for i, pos := 0, 1; pos > 0 && pos < len(n); i++ {
			if !yield(i, n[pos:]) {
				return
			}
			pos = n.after(n[pos:])
		}
	}
}

// text returns the value of a string, "" for anything else.
func (n node) text() string {
	if !n.is('"') {
		return ""
	}
	n = n.alone()
	if bytes.IndexByte(n, '\\') < 0 {
		return string(n[min(1, len(n)):max(len(n)-1, 0)])
	}
	if s, ok := unescape(n); ok {
		return s
	}
	var s string
	if json.Unmarshal(n, &s) != nil {
		return ""
	}
	return s
}

// unescape reads a string with no other escapes than those that JSON inside a
// text consists of, which is what a conversation is full of.
func unescape(n node) (string, bool) {
	if len(n) < 2 {
		return "", false
	}
	rest := n[1 : len(n)-1]
	b := make([]byte, 0, len(rest))
	for {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return string(append(b, rest...)), true
		}
		if at+1 >= len(rest) {
			return "", false
		}
		b = append(b, rest[:at]...)
		switch c := rest[at+1]; c {
		case '"', '\\':
			b = append(b, c)
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		default:
			return "", false
		}
		rest = rest[at+2:]
	}
}

// number returns the text of a number as it was written, "" for anything else.
func (n node) number() string {
	if len(n) == 0 || n[0] != '-' && (n[0] < '0' || n[0] > '9') {
		return ""
	}
	return string(n.alone())
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

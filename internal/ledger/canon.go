package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds nesting so that hostile input cannot exhaust the stack. It
// equals encoding/json's own bound.
const maxDepth = 10000

// Canon returns the canonical form of one JSON value. The result is fresh
// memory, except that the package never modifies src. An error names the byte
// offset and what was expected there.
func Canon(src []byte) ([]byte, error) {
	return AppendCanon(make([]byte, 0, len(src)), src)
}

// AppendCanon appends the canonical form of src to dst.
func AppendCanon(dst, src []byte) ([]byte, error) {
	c := canoniser{src: src, dst: dst}
	c.space()
	if err := c.value(0); err != nil {
		return nil, err
	}
	c.space()
	if c.pos != len(src) {
		return nil, c.fail("the end of the text")
	}
	return c.dst, nil
}

// CanonValue marshals a Go value and returns its canonical form.
func CanonValue(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode value: %w", err)
	}
	return Canon(b.Bytes())
}

type canoniser struct {
	src, dst []byte
	pos      int
}

// member is one object member as it stands in dst: the key's and the whole
// member's extent.
type member struct{ start, keyEnd, end int }

func (c *canoniser) fail(want string) error {
	if c.pos >= len(c.src) {
		return fmt.Errorf("canonical JSON: at byte %d: expected %s, found the end: %w", c.pos, want, ErrSyntax)
	}
	return fmt.Errorf("canonical JSON: at byte %d: expected %s, found %q: %w", c.pos, want, c.src[c.pos], ErrSyntax)
}

// ErrSyntax is wrapped by every error about text that is not JSON.
var ErrSyntax = errors.New("not JSON")

func (c *canoniser) space() {
	for c.pos < len(c.src) {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

func (c *canoniser) peek() byte {
	if c.pos < len(c.src) {
		return c.src[c.pos]
	}
	return 0
}

func (c *canoniser) value(depth int) error {
	b := c.peek()
	if depth >= maxDepth && (b == '{' || b == '[') {
		return fmt.Errorf("canonical JSON: at byte %d: nested deeper than %d: %w", c.pos, maxDepth, ErrSyntax)
	}
	switch {
	case b == '{':
		return c.object(depth)
	case b == '[':
		return c.array(depth)
	case b == '"':
		return c.str()
	case b == '-' || '0' <= b && b <= '9':
		return c.number()
	case b == 't':
		return c.literal("true")
	case b == 'f':
		return c.literal("false")
	case b == 'n':
		return c.literal("null")
	}
	return c.fail("a JSON value")
}

func (c *canoniser) literal(word string) error {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(word)) {
		return c.fail(word)
	}
	c.dst = append(c.dst, word...)
	c.pos += len(word)
	return nil
}

func (c *canoniser) array(depth int) error {
	c.pos++
	c.dst = append(c.dst, '[')
	c.space()
	if c.peek() == ']' {
		c.pos++
		c.dst = append(c.dst, ']')
		return nil
	}
	for {
		c.space()
		if err := c.value(depth + 1); err != nil {
			return err
		}
		c.space()
		switch c.peek() {
		case ',':
			c.dst = append(c.dst, ',')
			c.pos++
		case ']':
			c.dst = append(c.dst, ']')
			c.pos++
			return nil
		default:
			return c.fail(`"," or "]"`)
		}
	}
}

func (c *canoniser) object(depth int) error {
	c.pos++
	c.dst = append(c.dst, '{')
	open := len(c.dst)
	c.space()
	if c.peek() == '}' {
		c.pos++
		c.dst = append(c.dst, '}')
		return nil
	}
	var small [8]member
	members, sorted := small[:0], true
	for {
		m, err := c.member(depth)
		if err != nil {
			return err
		}
		if n := len(members); n > 0 && sorted {
			sorted = bytes.Compare(c.key(members[n-1]), c.key(m)) < 0
		}
		members = append(members, m)
		c.space()
		switch c.peek() {
		case ',':
			c.dst = append(c.dst, ',')
			c.pos++
			continue
		case '}':
			c.pos++
		default:
			return c.fail(`"," or "}"`)
		}
		break
	}
	if !sorted {
		c.sortMembers(open, members)
	}
	c.dst = append(c.dst, '}')
	return nil
}

func (c *canoniser) member(depth int) (member, error) {
	c.space()
	m := member{start: len(c.dst)}
	if c.peek() != '"' {
		return m, c.fail("a member name")
	}
	if err := c.str(); err != nil {
		return m, err
	}
	m.keyEnd = len(c.dst)
	c.space()
	if c.peek() != ':' {
		return m, c.fail(`":"`)
	}
	c.pos++
	c.dst = append(c.dst, ':')
	c.space()
	err := c.value(depth + 1)
	m.end = len(c.dst)
	return m, err
}

// key returns the decoded name of a member. Only names that hold an escape
// need decoding; all others stand in dst as they are.
func (c *canoniser) key(m member) []byte {
	quoted := c.dst[m.start:m.keyEnd]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // quoted is a string this package wrote
	return []byte(name)
}

// sortMembers rewrites the members that stand in dst from open on, sorted,
// the last of repeated names kept.
func (c *canoniser) sortMembers(open int, members []member) {
	slices.SortStableFunc(members, func(a, b member) int {
		return bytes.Compare(c.key(a), c.key(b))
	})
	out := make([]byte, 0, len(c.dst)-open)
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(c.key(m), c.key(members[i+1])) {
			continue
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, c.dst[m.start:m.end]...)
	}
	c.dst = append(c.dst[:open], out...)
}

func (c *canoniser) digits() bool {
	start := c.pos
	for b := c.peek(); '0' <= b && b <= '9'; b = c.peek() {
		c.pos++
	}
	return c.pos > start
}

func (c *canoniser) number() error {
	start := c.pos
	if c.peek() == '-' {
		c.pos++
	}
	if c.peek() == '0' {
		c.pos++
	} else if !c.digits() {
		return c.fail("a digit")
	}
	if c.peek() == '.' {
		c.pos++
		if !c.digits() {
			return c.fail("a digit")
		}
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		c.pos++
		if b := c.peek(); b == '+' || b == '-' {
			c.pos++
		}
		if !c.digits() {
			return c.fail("a digit")
		}
	}
	c.dst = append(c.dst, c.src[start:c.pos]...)
	return nil
}

// str copies one string. Runs of plain bytes, which is nearly everything, are
// copied at once.
func (c *canoniser) str() error {
	c.pos++
	c.dst = append(c.dst, '"')
	for {
		run := c.pos
		for c.pos < len(c.src) && plain(c.src[c.pos]) {
			c.pos++
		}
		c.dst = append(c.dst, c.src[run:c.pos]...)
		switch b := c.peek(); {
		case c.pos >= len(c.src):
			return c.fail("the end of a string")
		case b == '"':
			c.pos++
			c.dst = append(c.dst, '"')
			return nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return err
			}
		case b < 0x20:
			return c.fail("an escaped control character")
		default:
			r, size := utf8.DecodeRune(c.src[c.pos:])
			c.dst = utf8.AppendRune(c.dst, r)
			c.pos += size
		}
	}
}

func plain(b byte) bool { return b >= 0x20 && b < utf8.RuneSelf && b != '"' && b != '\\' }

func (c *canoniser) escape() error {
	c.pos++
	b := c.peek()
	c.pos++
	switch b {
	case '"', '\\', '/':
		c.dst = appendRune(c.dst, rune(b))
	case 'b':
		c.dst = appendRune(c.dst, '\b')
	case 'f':
		c.dst = appendRune(c.dst, '\f')
	case 'n':
		c.dst = appendRune(c.dst, '\n')
	case 'r':
		c.dst = appendRune(c.dst, '\r')
	case 't':
		c.dst = appendRune(c.dst, '\t')
	case 'u':
		return c.unicode()
	default:
		c.pos--
		return c.fail("an escape")
	}
	return nil
}

// unicode reads the four digits after \u, and the second half of a surrogate
// pair where one follows. A half alone becomes U+FFFD.
func (c *canoniser) unicode() error {
	r, ok := hex4(c.src, c.pos)
	if !ok {
		return c.fail("four hex digits")
	}
	c.pos += 4
	if utf16.IsSurrogate(r) {
		low, ok := rune(0), false
		if bytes.HasPrefix(c.src[c.pos:], []byte(`\u`)) {
			low, ok = hex4(c.src, c.pos+2)
		}
		r = utf16.DecodeRune(r, low)
		if ok && r != utf8.RuneError {
			c.pos += 6
		}
	}
	c.dst = appendRune(c.dst, r)
	return nil
}

func hex4(b []byte, at int) (rune, bool) {
	if at+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, d := range b[at : at+4] {
		switch {
		case '0' <= d && d <= '9':
			r = r<<4 | rune(d-'0')
		case 'a' <= d && d <= 'f':
			r = r<<4 | rune(d-'a'+10)
		case 'A' <= d && d <= 'F':
			r = r<<4 | rune(d-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

const hexDigits = "0123456789abcdef"

// appendRune appends r as it stands inside a canonical string.
func appendRune(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r < 0x20 {
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// AppendString appends s as a canonical JSON string. Bytes that are not UTF-8
// become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	run := 0
	for i := 0; i < len(s); {
		if plain(s[i]) {
			i++
			continue
		}
		dst = append(dst, s[run:i]...)
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = appendRune(dst, r)
		i += size
		run = i
	}
	return append(append(dst, s[run:]...), '"')
}

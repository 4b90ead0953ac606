package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxDepth bounds nesting so that hostile input cannot exhaust the stack. It
// equals encoding/json's own bound.
const maxDepth = 10000

// Canon returns the canonical form of one JSON value, in fresh memory that is the
// caller's. src is never modified. An error names the byte offset and what was
// expected there.
func Canon(src []byte) ([]byte, error) {
	c := canoniser{src: src}
	if err := c.run(); err != nil {
		return nil, err
	}
	if c.same() {
		return bytes.Clone(src), nil
	}
	return c.dst, nil
}

// InCanon is Canon, but returns src itself when it is canonical already: the
// memory is then still src's owner's.
func InCanon(src []byte) ([]byte, error) {
	c := canoniser{src: src}
	if err := c.run(); err != nil {
		return nil, err
	}
	if c.same() {
		return src, nil
	}
	return c.dst, nil
}

// IsCanon reports whether b is canonical JSON.
func IsCanon(b []byte) bool {
	c := canoniser{src: b}
	return c.run() == nil && c.same()
}

// AppendCanon appends the canonical form of src to dst.
func AppendCanon(dst, src []byte) ([]byte, error) {
	c := canoniser{src: src, dst: dst}
	if err := c.run(); err != nil {
		return nil, err
	}
	c.copyTo(c.pos)
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

// canoniser reads src once. What is canonical as it stands is not copied until
// something before or behind it is not, so canonical text costs no copy at all.
type canoniser struct {
	src  []byte
	dst  []byte // the canonical form of src[:from]
	from int    // what is not copied yet: src[from:pos]
	pos  int    // what is read

	escapes int    // how many were read
	spare   []byte // for members that change places
}

// run reads the whole text.
func (c *canoniser) run() error {
	c.space()
	if err := c.value(0); err != nil {
		return err
	}
	c.space()
	if c.pos != len(c.src) {
		return c.fail("the end of the text")
	}
	if !c.same() {
		c.copyTo(c.pos)
	}
	return nil
}

// same reports whether the text is canonical as it stands.
func (c *canoniser) same() bool { return c.from == 0 }

// at is the place in the output.
func (c *canoniser) at() int { return len(c.dst) + c.pos - c.from }

// copyTo copies what is read up to end, in one piece.
func (c *canoniser) copyTo(end int) {
	if c.dst == nil {
		c.dst = make([]byte, 0, len(c.src))
	}
	c.append(c.src[c.from:end])
	c.from = c.pos
}

// append leaves dst where it is as long as there is room, so that the garbage
// collector need not be told.
func (c *canoniser) append(text []byte) {
	n := len(c.dst)
	if cap(c.dst)-n < len(text) {
		c.dst = append(c.dst, text...)
		return
	}
	c.dst = c.dst[:n+len(text)]
	copy(c.dst[n:], text)
}

// write puts text in the place of what was read from start on.
func (c *canoniser) write(start int, text ...byte) {
	c.copyTo(start)
	if len(text) > 0 {
		c.append(text)
	}
}

func (c *canoniser) fail(want string) error {
	if c.pos >= len(c.src) {
		return fmt.Errorf("canonical JSON: at byte %d: expected %s, found the end: %w", c.pos, want, ErrSyntax)
	}
	return fmt.Errorf("canonical JSON: at byte %d: expected %s, found %q: %w", c.pos, want, c.src[c.pos], ErrSyntax)
}

// ErrSyntax is wrapped by every error about text that is not JSON.
var ErrSyntax = errors.New("not JSON")

func (c *canoniser) space() {
	if c.pos < len(c.src) && c.src[c.pos] <= ' ' {
		c.leaveSpace()
	}
}

func (c *canoniser) leaveSpace() {
	start := c.pos
	for c.pos < len(c.src) && isSpace(c.src[c.pos]) {
		c.pos++
	}
	if c.pos > start {
		c.write(start)
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

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
	c.pos += len(word)
	return nil
}

func (c *canoniser) array(depth int) error {
	c.pos++
	c.space()
	if c.peek() == ']' {
		c.pos++
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
			c.pos++
		case ']':
			c.pos++
			return nil
		default:
			return c.fail(`"," or "]"`)
		}
	}
}

func (c *canoniser) object(depth int) error {
	c.pos++
	c.space()
	if c.peek() == '}' {
		c.pos++
		return nil
	}
	var few [8]member
	members, sorted := few[:0], true
	var last []byte
	for {
		m, name, err := c.member(depth)
		if err != nil {
			return err
		}
		sorted = sorted && (len(members) == 0 || bytes.Compare(last, name) < 0)
		members, last = append(members, m), name
		c.space()
		switch c.peek() {
		case ',':
			c.pos++
			continue
		case '}':
		default:
			return c.fail(`"," or "}"`)
		}
		break
	}
	if !sorted {
		c.copyTo(c.pos)
		c.sort(members)
	}
	c.pos++
	return nil
}

// member reads one member and returns its decoded name.
func (c *canoniser) member(depth int) (m member, name []byte, err error) {
	c.space()
	if c.peek() != '"' {
		return m, nil, c.fail("a member name")
	}
	start, escapes := c.pos, c.escapes
	m.start = c.at()
	if err := c.str(); err != nil {
		return m, nil, err
	}
	m.colon = c.at()
	quoted := c.src[start:c.pos]
	if c.from > start { // it is spelled in another way
		c.copyTo(c.pos)
		quoted = c.dst[m.start:]
	}
	c.space()
	if c.peek() != ':' {
		return m, nil, c.fail(`":"`)
	}
	c.pos++
	c.space()
	if name = quoted[1 : len(quoted)-1]; c.escapes > escapes {
		name = nameOf(quoted)
	}
	err = c.value(depth + 1)
	m.end = c.at()
	return m, name, err
}

// nameOf decodes a canonical string. Only one that holds an escape needs it.
func nameOf(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // canonical already
	return []byte(name)
}

func (c *canoniser) digits() bool {
	start := c.pos
	for b := c.peek(); '0' <= b && b <= '9'; b = c.peek() {
		c.pos++
	}
	return c.pos > start
}

func (c *canoniser) number() error {
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
	return nil
}

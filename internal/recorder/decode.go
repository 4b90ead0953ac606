package recorder

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"investigator/internal/ledger"
)

// decodeLine reads a line's text, from "- " to before the newline. Bodies, which
// are nearly all of a line, are cut out by their extent and unescaped in one
// pass; the small rest goes through encoding/json.
func decodeLine(text []byte) (*line, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("the line is not UTF-8")
	}
	spans, err := ledger.MemberSpans(text[len("- "):])
	if err != nil {
		return nil, fmt.Errorf("the line is not an interaction: %w", err)
	}
	var l line
	for _, s := range spans {
		switch s.Name {
		case "id":
			err = json.Unmarshal(s.Value, &l.ID)
		case "x":
			err = json.Unmarshal(jsonOf(s.Value), &l.X)
		case "request":
			_, l.Request.Body, err = exchange(s.Value, &l.Request)
		case "response":
			l.answer, l.Response.Body, err = exchange(s.Value, &l.Response)
		}
		if err != nil {
			return nil, fmt.Errorf("the line is not an interaction: /%s: %w", s.Name, err)
		}
	}
	if len(l.X.Events) == 0 {
		return nil, fmt.Errorf("the line holds no event")
	}
	if l.X.Seq < 2 || l.ID < 0 {
		return nil, fmt.Errorf("expected events from 2 on, found event %d", l.X.Seq)
	}
	return &l, nil
}

// exchange reads a request or a response into out, except for its body, which
// it returns beside the text it stands in.
func exchange(object []byte, out any) (text []byte, b body, err error) {
	spans, err := ledger.MemberSpans(object)
	if err != nil {
		return nil, nil, err
	}
	rest := []byte{'{'}
	for _, s := range spans {
		if s.Name == "body" {
			text = s.Value
			if b, err = bodyOf(text); err != nil {
				return nil, nil, fmt.Errorf("body: %w", err)
			}
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(rest, object[s.Start:s.End]...)
	}
	return text, b, json.Unmarshal(append(rest, '}'), out)
}

// bodyOf reads the value of a body member.
func bodyOf(value []byte) (body, error) {
	if !bytes.HasPrefix(value, []byte(binaryTag)) {
		return unquote(value)
	}
	digits, found := bytes.CutSuffix(value[len(binaryTag):], []byte(`"`))
	if !found {
		return nil, fmt.Errorf("expected the end of a string")
	}
	return base64.StdEncoding.AppendDecode(nil, digits)
}

// unquote reads a string as appendText writes it. Escapes of surrogates, which
// it never writes and YAML refuses, are refused.
func unquote(value []byte) (body, error) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return nil, fmt.Errorf("expected a string, found %.20q", value)
	}
	value = value[1 : len(value)-1]
	out := make([]byte, 0, len(value))
	for {
		i := bytes.IndexByte(value, '\\')
		plain := value
		if i >= 0 {
			plain = value[:i]
		}
		if at := controlIn(plain); at >= 0 {
			return nil, fmt.Errorf("expected an escaped control character, found %q", plain[at])
		}
		out = append(out, plain...)
		if i < 0 {
			return out, nil
		}
		r, size := unescape(value[i:])
		if size == 0 {
			return nil, fmt.Errorf("expected an escape, found %.6q", value[i:])
		}
		out = utf8.AppendRune(out, r)
		value = value[i+size:]
	}
}

// controlIn returns where the first control character or quote of b stands, -1
// where there is none. It looks at eight bytes at a time.
func controlIn(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
		quote := word ^ '"'*eachByte
		if ((word-0x20*eachByte)&^word|(quote-eachByte)&^quote)&topBits != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 || b[i] == '"' {
			return i
		}
	}
	return -1
}

// unescape reads one escape; size 0 means that it is none.
func unescape(b []byte) (r rune, size int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		return hexRune(b)
	}
	return 0, 0
}

func hexRune(b []byte) (r rune, size int) {
	if len(b) < 6 {
		return 0, 0
	}
	for _, d := range b[2:6] {
		switch {
		case '0' <= d && d <= '9':
			r = r<<4 | rune(d-'0')
		case 'a' <= d && d <= 'f':
			r = r<<4 | rune(d-'a'+10)
		case 'A' <= d && d <= 'F':
			r = r<<4 | rune(d-'A'+10)
		default:
			return 0, 0
		}
	}
	if 0xd800 <= r && r <= 0xdfff {
		return 0, 0
	}
	return r, 6
}

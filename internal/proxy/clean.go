package proxy

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strconv"

	"investigator/internal/foreign"
	"investigator/internal/scrub"
)

// clean is a text without secrets.
func clean(text string) string {
	if b, n := scrub.Scrub([]byte(text)); n > 0 {
		return string(b)
	}
	return text
}

// cleanBody is an answer without secrets. Frames that cannot be taken apart, as
// those that were cut off, are no frames any more where they hold one.
func cleanBody(body []byte) []byte {
	body = foreign.Clean(body, cleanJSON)
	if scrub.Find(body) != "" {
		body, _ = scrub.Scrub(body)
	}
	return body
}

// cleanJSON is scrub.Scrub for a piece of JSON in which letters may be escaped.
func cleanJSON(b []byte) ([]byte, int) {
	if out, n := scrub.Scrub(withoutEscapes(b)); n > 0 {
		return out, n
	}
	return b, 0
}

// withoutEscapes writes the escapes of letters, digits and other plain characters
// as what they stand for. It returns b itself where there are none.
func withoutEscapes(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\u00`)) && !bytes.Contains(b, []byte(`\/`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			break
		}
		out, b = append(out, b[:i]...), b[i:]
		c, size := plainEscape(b)
		if size > 0 {
			out = append(out, c)
		} else {
			size = min(2, len(b)) // what is escaped begins no escape
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	return append(out, b...)
}

// plainEscape reads the escape of a character that could stand as it is, and says
// how long it is, 0 for any other text.
func plainEscape(b []byte) (c byte, size int) {
	if bytes.HasPrefix(b, []byte(`\/`)) {
		return '/', len(`\/`)
	}
	digits, found := bytes.CutPrefix(b, []byte(`\u00`))
	if !found || len(digits) < 2 {
		return 0, 0
	}
	v, err := strconv.ParseUint(string(digits[:2]), 16, 8)
	if err != nil || v < ' ' || v > '~' || v == '"' || v == '\\' {
		return 0, 0
	}
	return byte(v), len(`\u0000`)
}

// joined is the text of a stream that does not read as one: what its deltas say,
// in a row.
func joined(body []byte) []byte {
	var out []byte
	delta := regexp.MustCompile(`"(bytes|text|input|partial_json|thinking|content|arguments)":\s*"((?:[^"\\]|\\.)*)"`)
	for _, m := range delta.FindAllSubmatch(body, -1) {
		inner, err := base64.StdEncoding.AppendDecode(nil, m[2])
		if string(m[1]) == "bytes" && err == nil {
			out = append(out, joined(inner)...)
			continue
		}
		out = append(out, m[2]...)
	}
	return out
}

package proxy

import (
	"encoding/base64"
	"regexp"
	"slices"

	"investigator/internal/foreign"
	"investigator/internal/ledger"
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
	body = foreign.Clean(body, scrub.JSON)
	if scrub.Find(body) != "" {
		body, _ = scrub.Scrub(body)
	}
	return body
}

// secretlyTold reports whether a stream tells a secret in pieces of what is no part
// of the answer that was read from it.
func secretlyTold(d foreign.Dialect, body, answer []byte) bool {
	if d != foreign.OpenAI && ledger.Member(answer, "investigator") == nil { // what it does not know is kept there
		return false
	}
	return slices.ContainsFunc(foreign.Spoken(body), func(text []byte) bool {
		_, n := scrub.JSON(text)
		return n > 0
	})
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

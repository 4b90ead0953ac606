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

// tellsSecret reports whether a text that was put together holds a secret.
func tellsSecret(texts [][]byte) bool {
	return slices.ContainsFunc(texts, func(text []byte) bool {
		_, n := scrub.JSON(text)
		return n > 0
	})
}

// tellsMore reports whether a stream tells more than the answer that was read from
// it: what its reader does not know it keeps beside that.
func tellsMore(d foreign.Dialect, answer []byte) bool {
	return d == foreign.OpenAI || ledger.Member(answer, "investigator") != nil
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

package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

// plain is the body of an answer without the content coding that its header
// names. Bedrock uses none, but what stands in its place may. problem says why
// the body cannot be read: then nothing of it is kept, because nobody could tell
// whether it holds a secret.
func plain(coding string, body []byte) (text []byte, problem string) {
	switch strings.ToLower(coding) {
	case "", "identity":
		return body, ""
	case "gzip", "x-gzip": // which are equal (RFC 9110, 8.4.1.3)
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, "the answer says that it is gzip and is not"
		}
		text, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
		switch {
		case len(text) > maxAnswer:
			return nil, fmt.Sprintf("the answer is gzip of more than %d MB", maxAnswer>>20)
		case err != nil:
			return nil, "the answer's gzip is cut off or damaged"
		}
		return text, ""
	}
	return nil, fmt.Sprintf("the answer came in the content coding %q, which cannot be read", clean(coding))
}

// decode takes the content coding off what is kept of an answer.
func (a *attempt) decode(coding string) {
	text, problem := plain(coding, a.Body)
	if a.Body = text; problem != "" && a.Err == "" {
		a.Err = problem
	}
}

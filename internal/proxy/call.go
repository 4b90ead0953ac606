package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"investigator/internal/foreign"
	"investigator/internal/ledger"
)

// call is one HTTP request as it was read.
type call struct {
	foreign.Asked
	raw    []byte
	header http.Header
	at     time.Time

	tag        string
	invocation string // amz-sdk-invocation-id
	attempt    int    // from 1; as the client counts, 1 if it does not
	sums       []ledger.Sum
	key        ledger.Sum
	results    []foreign.Result
}

func newCall(a foreign.Asked, raw []byte, h http.Header, at time.Time) *call {
	c := &call{Asked: a, raw: raw, header: h, at: at, invocation: h.Get("Amz-Sdk-Invocation-Id"), attempt: attemptOf(h), tag: tagOf(a.Route, h)}
	c.sums = foreign.Sums(a.Request.Messages.Messages())
	c.key = foreign.Key(a, c.last())
	c.results = a.Results()
	return c
}

// last is the sum over the whole conversation.
func (c *call) last() ledger.Sum {
	if len(c.sums) == 0 {
		return ledger.Sum{}
	}
	return c.sums[len(c.sums)-1]
}

// attemptOf reads which attempt this is: AWS SDKs say attempt=2; max=3, clients
// made by Stainless count retries from 0.
func attemptOf(h http.Header) int {
	for part := range strings.SplitSeq(h.Get("Amz-Sdk-Request"), ";") {
		if n, found := strings.CutPrefix(strings.TrimSpace(part), "attempt="); found {
			if v, err := strconv.Atoi(n); err == nil {
				return v
			}
		}
	}
	if v, err := strconv.Atoi(h.Get("X-Stainless-Retry-Count")); err == nil {
		return v + 1
	}
	return 1
}

// RunHeader is the header by which an agent names its run.
const RunHeader = "X-Investigator-Run"

// tagOf is what an agent calls its run: by header, by the path prefix
// /run/NAME, or by AWS_SDK_UA_APP_ID, which AWS SDKs send as app/NAME.
func tagOf(r foreign.Route, h http.Header) string {
	if tag := h.Get(RunHeader); tag != "" {
		return tag
	}
	if r.Tag != "" {
		return r.Tag
	}
	for _, product := range strings.Fields(h.Get("X-Amz-User-Agent") + " " + h.Get("User-Agent")) {
		if name, found := strings.CutPrefix(product, "app/"); found {
			return name
		}
	}
	return ""
}

// clientOf is the product a User-Agent names first; the rest tells about the
// machine.
func clientOf(h http.Header) string {
	words := strings.Fields(h.Get("User-Agent"))
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
)

// arrival is what a request says of itself beside its body, without anything
// that may be secret.
type arrival struct {
	Path       string // escaped
	Tag        string // what the agent calls its run
	Client     string
	Invocation string // amz-sdk-invocation-id
	Attempt    int    // from 1; as the client counts, 0 if it does not
	At         time.Time
}

func arrived(r foreign.Route, h http.Header, at time.Time) arrival {
	return arrival{Path: r.Path, Tag: tagOf(r, h), Client: clientOf(h), Invocation: h.Get("Amz-Sdk-Invocation-Id"), Attempt: attemptOf(h), At: at}
}

// call is one HTTP request. Only its route and its arrival are known before it
// was read.
type call struct {
	foreign.Asked
	arrival
	raw    []byte
	memory *memory     // that raw stands in; nil where the call keeps its own
	header http.Header // nil when the call is over

	sums    []ledger.Sum
	key     ledger.Sum
	results []foreign.Result
	over    bool // it ended before its run was known
}

// newCall is a call whose body was read.
func newCall(a foreign.Asked, raw []byte, h http.Header, at time.Time) *call {
	c := &call{Asked: a, arrival: arrived(a.Route, h, at), raw: raw, header: h}
	c.sum()
	return c
}

// read reads the body. The error says that it is no JSON object.
func (c *call) read() error {
	if err := c.parse(); err != nil {
		return err
	}
	c.sum()
	return nil
}

// parse is read without a look at what the call means.
func (c *call) parse() error {
	var room []byte
	if c.memory != nil {
		c.memory.canon = slices.Grow(c.memory.canon[:0], len(c.raw))
		room = c.memory.canon
	}
	a, err := foreign.ReadRequestInto(room, c.Route, c.raw)
	if err == nil {
		c.Asked = a
	}
	return err
}

// sum finds out what the call means.
func (c *call) sum() {
	c.sums = foreign.SumsOf(c.Request.Messages)
	c.key = foreign.Key(c.Asked, c.last())
	c.results = c.Results()
}

// shape is what an answer to the call has to look like.
func (c *call) shape() foreign.Asked {
	if c.Dialect == "" {
		if a, err := foreign.ReadRequest(c.Route, c.raw); err == nil {
			return a
		}
	}
	return c.Asked
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
	return 0
}

// mayRetry reports whether a call may be another attempt of the same that failed
// at a time, though its client says nothing of attempts.
func (c *call) mayRetry(failed time.Time) bool {
	return c.Invocation == "" && c.Attempt == 0 && c.At.Sub(failed) < retryWindow
}

// ended is when a call came back, which may be long before it is recorded.
func (c *call) ended(ret edge.Return) time.Time {
	took, _ := time.ParseDuration(ret.Took) // there is none of a call that hung
	return c.At.Add(took)
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

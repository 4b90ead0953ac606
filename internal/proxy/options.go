package proxy

import (
	"net/http"
	"time"

	"investigator/internal/faults"
	"investigator/internal/recorder"
)

// Options says what a Proxy does. Exactly one of Record, Replay and Fork is
// given; with Fork, Replay may be the runs that were recorded beside the parent.
type Options struct {
	Record *RecordOptions
	Replay []*recorder.Cassette // of foreign agents
	Fork   *ForkOptions

	// Upstream answers what is forwarded; Replay and a halting Fork need none.
	Upstream Upstream
	// Strict tolerates no change in replay.
	Strict bool
	// Token has to be sent by clients where it is set.
	Token string
	// Tool and NewRun fill the headers of cassettes.
	Tool   string
	NewRun func() string
	Now    func() time.Time // nil means the clock
	Notify func(Note)       // told what happens, from any goroutine; nil for nobody
}

// RecordOptions says where runs are written.
type RecordOptions struct {
	// Create makes the cassette of a run: the n-th of this proxy, from 1.
	Create func(n int, h recorder.Header) (*recorder.Writer, error)
	// Durable holds the end of each answer back until its record is on the disk.
	// Without it the record follows within milliseconds, or later where calls
	// come faster than they can be written.
	Durable bool
	// Spool is a folder that takes, unreadable for others, what waits for the
	// recorder and is too much for memory. Empty means the system's.
	Spool string
	// MaxOpen bounds the runs that are kept open; the one that was idle for the
	// longest time is sealed to make room. Four times as many may be open while
	// their tools are at work. Zero means 256.
	MaxOpen int
}

// ForkOptions says what is changed in which run.
type ForkOptions struct {
	Parent *recorder.Cassette
	Patch  faults.Patch // with its At
	Live   bool         // go on over the upstream instead of halting
	// Create makes the fork's cassette; the proxy completes the header's Parent.
	Create func(h recorder.Header) (*recorder.Writer, error)
	// Beside makes the cassettes, from 1, of what a live fork passes on because it
	// is not of the forked run: calls that are no turns, and other conversations.
	// Nil refuses such calls.
	Beside func(n int, h recorder.Header) (*recorder.Writer, error)
}

// Note is something that happened.
type Note struct {
	Kind string // diverged, halted, forked, refused, recording (it takes a while to end) or trouble
	Text string
}

// Upstream sends requests on. The request has its final URL path and no
// credentials; body is all of it. Do may be called from many goroutines.
type Upstream interface {
	// Do returns the answer's head; the body is read by the caller.
	Do(r *http.Request, body []byte) (*http.Response, error)
	// Place returns the URL a cassette keeps for an escaped path.
	Place(path string) string
}

const (
	maxBody     = 26 << 20  // the service takes 25 MB
	believed    = 1 << 20   // what a body is said to need gets no more memory before it comes
	maxAnswer   = 256 << 20 // kept of one answer
	retryWindow = 2 * time.Minute
	// The AWS SDK for Go loses answers that come while net/http still writes the
	// request (see writer). 200 µs are enough on an idle machine; it gets more,
	// because its goroutines may wait for a processor.
	goSDKWait  = 3 * time.Millisecond
	maxWaiting = 30 * time.Second // for the answer a request builds on
	cutOff     = 2 * time.Second  // for a call to notice that the proxy ends

	memoryBacklog = 8 << 20
	diskBacklog   = 1 << 30
)

package bedrocktest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault makes a named trouble happen to some requests. Of several faults that
// apply to a request the one given earliest happens.
type Fault struct {
	// Name is one of FaultNames.
	Name string
	// Every n hits one request in n, chosen by a hash of the body, of how often
	// that body came before, and of the seed: the same traffic meets the same
	// troubles in any order of arrival. 0 and 1 hit every request.
	Every int
	// Times bounds how often it happens; 0 is no bound.
	Times int
	// When limits it to the requests it approves of; nil approves of all.
	When func(Request) bool
	// RetryAfter adds retry-after headers to an error that is answered instead
	// of the script.
	RetryAfter time.Duration
}

// ParseFault reads "name" or "name@n", n being Every.
func ParseFault(s string) (Fault, error) {
	name, every, found := strings.Cut(s, "@")
	f := Fault{Name: name}
	if !slices.Contains(FaultNames(), name) {
		return f, fmt.Errorf("parse fault: unknown name %q, expected one of %s", name, strings.Join(FaultNames(), ", "))
	}
	if !found {
		return f, nil
	}
	n, err := strconv.Atoi(every)
	if err != nil || n < 1 {
		return f, fmt.Errorf("parse fault %q: after @ found %q, expected a number of at least 1", s, every)
	}
	f.Every = n
	return f, nil
}

// FaultNames lists the faults in order of the alphabet.
func FaultNames() []string {
	var names []string
	for _, k := range troubles() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// draw decides whether this request is one of the n.
func (f Fault) draw(seed uint64, body []byte, arrival int) bool {
	if f.Every <= 1 {
		return true
	}
	sum := sha256.Sum256(body)
	key := binary.BigEndian.AppendUint64(sum[:], seed)
	key = binary.BigEndian.AppendUint64(key, uint64(arrival))
	sum = sha256.Sum256(append(key, f.Name...))
	return binary.BigEndian.Uint64(sum[:8])%uint64(f.Every) == 0
}

// trouble is what a fault's name means. Either it answers in the place of the
// script (instead), or it spoils the script's own good answer (spoil).
type trouble struct {
	name    string
	instead func(in injection) reply
	spoil   func(in injection, r reply) reply
}

// injection is what a trouble may need to know.
type injection struct {
	op         Op
	retryAfter time.Duration
	url        string
	slowFirst  time.Duration
	slowStep   time.Duration
}

func findTrouble(name string) (trouble, bool) {
	for _, t := range troubles() {
		if t.name == name {
			return t, true
		}
	}
	return trouble{}, false
}

func troubles() []trouble {
	return []trouble{
		refusal("throttle", 429, "ThrottlingException", "Too many requests, please wait before trying again."),
		refusal("500", 500, "InternalServerException", "The system encountered an unexpected error during processing. Try your request again."),
		refusal("503", 503, "ServiceUnavailableException", "Bedrock is unable to process your request."),
		refusal("model-not-ready", 429, "ModelNotReadyException", "Model is not ready for inference. Wait and try your request again."),
		refusal("model-timeout", 408, "ModelTimeoutException", "Model has timed out in processing the request. Try your request again."),
		refusal("model-error", 424, "ModelErrorException", "The model encountered an unexpected error while processing the request."),
		refusal("access-denied", 403, "AccessDeniedException", "You don't have access to the model with the specified model ID."),
		refusal("expired-token", 403, "ExpiredTokenException", "The security token included in the request is expired"),
		refusal("unknown-model", 400, "ValidationException", unknownModel().Message),
		{name: "throttle-retry-after", instead: func(in injection) reply {
			if in.retryAfter == 0 {
				in.retryAfter = time.Second
			}
			t, _ := findTrouble("throttle")
			return t.instead(in)
		}},
		{name: "reset", instead: func(injection) reply { return reply{ending: endReset} }},
		{name: "html", instead: func(injection) reply { return htmlReply(http.StatusOK) }},
		{name: "html-502", instead: func(injection) reply { return htmlReply(http.StatusBadGateway) }},
		{name: "redirect", instead: redirect},
		{name: "empty-200", instead: emptyReply},
		{name: "slow-first-byte", spoil: func(in injection, r reply) reply { r.first = in.slowFirst; return r }},
		{name: "slow-loris", spoil: func(in injection, r reply) reply { r.step = in.slowStep; return r }},
		{name: "cut", spoil: cutAtFrame},
		{name: "cut-in-frame", spoil: cutInFrame},
		{name: "reset-mid-stream", spoil: resetMidStream},
		{name: "bad-crc", spoil: badCRC},
		midStream("throttle-mid-stream", "throttlingException", "Too many tokens, please wait before trying again.", "throttle"),
		midStream("error-mid-stream", "internalServerException", "The system encountered an unexpected error during processing. Try your request again.", "500"),
		midStream("model-error-mid-stream", "modelStreamErrorException", "The model encountered an unexpected error while streaming.", "model-error"),
	}
}

func refusal(name string, status int, kind, text string) trouble {
	return trouble{name: name, instead: func(in injection) reply {
		r := errorReply(in.op, &APIError{Status: status, Type: kind, Message: text})
		if d := in.retryAfter; d > 0 {
			r.header.Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
			r.header.Set("x-amz-retry-after", strconv.FormatInt(d.Milliseconds(), 10))
		}
		return r
	}}
}

// htmlReply is the page a corporate proxy puts in the way.
func htmlReply(status int) reply {
	page := "<!DOCTYPE html><html><head><title>Access restricted</title></head><body><h1>Sign in to continue</h1><p>This network requires authentication.</p></body></html>"
	return reply{status: status, header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, chunks: [][]byte{[]byte(page)}}
}

// redirect points back at this server, so that a client that follows it leaves
// a record of what it sent along.
func redirect(in injection) reply {
	r := htmlReply(http.StatusFound)
	r.header.Set("Location", in.url+"/redirected")
	return r
}

func emptyReply(in injection) reply {
	kind := "application/json"
	if in.op == OpConverseStream || in.op == OpInvokeStream {
		kind = "application/vnd.amazon.eventstream"
	}
	return reply{status: http.StatusOK, header: http.Header{"Content-Type": {kind}}}
}

// middle is where a stream breaks: something was said, something is missing.
func middle(r reply) int { return max(1, len(r.chunks)/2) }

// cutAtFrame ends a stream early but cleanly; a JSON answer stops short of the
// length it announced.
func cutAtFrame(_ injection, r reply) reply {
	if !r.streamed {
		r.ending = endShort
		return r
	}
	r.chunks = r.chunks[:min(middle(r), len(r.chunks))]
	return r
}

func cutInFrame(in injection, r reply) reply {
	if !r.streamed || len(r.chunks) < 2 {
		return cutAtFrame(in, r)
	}
	next := r.chunks[middle(r)]
	kept := slices.Clone(r.chunks[:middle(r)])
	r.chunks = append(kept, next[:len(next)/2])
	return r
}

func resetMidStream(in injection, r reply) reply {
	if r.streamed {
		r = cutAtFrame(in, r)
	}
	r.ending = endReset
	return r
}

// badCRC spoils the checksum of one frame. An answer without checksums gets a
// byte that makes it no JSON.
func badCRC(_ injection, r reply) reply {
	if len(r.chunks) == 0 {
		return r
	}
	r.chunks = slices.Clone(r.chunks)
	i := min(middle(r), len(r.chunks)-1)
	spoiled := slices.Clone(r.chunks[i])
	at := len(spoiled) - 1
	if r.header.Get("Content-Type") != "application/vnd.amazon.eventstream" {
		at = strings.IndexByte(string(spoiled), '{')
	}
	if at >= 0 {
		spoiled[at] ^= 0x20
	}
	r.chunks[i] = spoiled
	return r
}

// midStream breaks a stream with an exception; what does not stream is refused
// by the HTTP error of the same kind.
func midStream(name, exception, text, otherwise string) trouble {
	return trouble{name: name, spoil: func(in injection, r reply) reply {
		if !r.streamed {
			t, _ := findTrouble(otherwise)
			return t.instead(in)
		}
		r = cutAtFrame(in, r)
		payload := encode(object{{"message", text}})
		last := EncodeFrame("!"+exception, payload)
		if in.op == OpMessages || in.op == OpChatCompletions {
			last = sseEvent(in.op, "error", sseError(in.op, exception, payload))
		}
		r.chunks = append(slices.Clone(r.chunks), last)
		return r
	}}
}

package bedrocktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// EncodeFrame frames one event as the service does: the type, content type and
// message type headers in that order, then the payload as given. A kind that
// begins with "!" makes an exception frame.
func EncodeFrame(kind string, payload []byte) []byte {
	name, message := ":event-type", "event"
	if k, ok := strings.CutPrefix(kind, "!"); ok {
		kind, name, message = k, ":exception-type", "exception"
	}
	m := eventstream.Message{Payload: payload, Headers: eventstream.Headers{
		{Name: name, Value: eventstream.StringValue(kind)},
		{Name: ":content-type", Value: eventstream.StringValue("application/json")},
		{Name: ":message-type", Value: eventstream.StringValue(message)},
	}}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		// A buffer does not fail, and header names are the constants above.
		panic("bedrocktest: encode frame: " + err.Error())
	}
	return b.Bytes()
}

// eventStream frames events for ConverseStream or the invoke stream. Events of
// the script's own pass unpadded, so that a case arrives byte for byte.
func eventStream(a answer, events []frame) reply {
	r := reply{status: http.StatusOK, streamed: true, header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}}
	invoke := a.req.Op == OpInvokeStream
	if invoke {
		r.header.Set("X-Amzn-Bedrock-Content-Type", "application/json")
	}
	for _, e := range events {
		payload, exception := payloadBytes(e.payload), strings.HasPrefix(e.kind, "!")
		kind := e.kind
		switch {
		case exception:
		case invoke:
			kind, payload = "chunk", encode(object{{"bytes", payload}, {"p", a.pad()}})
		case a.turn.Events == nil:
			if o, ok := e.payload.(object); ok {
				payload = encode(append(o[:len(o):len(o)], member{"p", a.pad()}))
			}
		}
		r.chunks = append(r.chunks, EncodeFrame(kind, payload))
	}
	return r
}

// payloadBytes leaves a script's own JSON as it was written.
func payloadBytes(v any) []byte {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	return encode(v)
}

// sseReply writes server-sent events. OpenAI's have no event line and end with
// [DONE].
func sseReply(a answer, events []frame) reply {
	r := reply{status: http.StatusOK, streamed: true, header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}, "Cache-Control": {"no-cache"}}}
	for _, e := range events {
		kind := e.kind
		payload := encode(e.payload)
		if k, ok := strings.CutPrefix(kind, "!"); ok && k != "" {
			payload = sseError(a.req.Op, k, payload)
			kind = "error"
		}
		r.chunks = append(r.chunks, sseEvent(a.req.Op, kind, payload))
	}
	if a.req.Op == OpChatCompletions {
		r.chunks = append(r.chunks, []byte("data: [DONE]\n\n"))
	}
	return r
}

func sseEvent(op Op, kind string, payload []byte) []byte {
	var b bytes.Buffer
	if op == OpMessages {
		b.WriteString("event: " + kind + "\n")
	}
	b.WriteString("data: ")
	b.Write(payload)
	b.WriteString("\n\n")
	return b.Bytes()
}

// sseError renders a stream exception in the words of the API that streams.
func sseError(op Op, kind string, payload []byte) []byte {
	var p struct{ Message string }
	_ = json.Unmarshal(payload, &p) // an exception without a message is still one
	e := &APIError{Status: exceptionStatus(kind), Type: kind, Message: p.Message}
	if op == OpChatCompletions {
		return encode(openAIError(e))
	}
	return encode(anthropicError(e))
}

func exceptionStatus(kind string) int {
	switch kind {
	case "throttlingException":
		return http.StatusTooManyRequests
	case "validationException":
		return http.StatusBadRequest
	case "serviceUnavailableException":
		return http.StatusServiceUnavailable
	case "modelTimeoutException":
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}

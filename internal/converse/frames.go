package converse

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"

	"investigator/internal/ledger"
)

// Kinds of event-stream messages, as their :message-type header says.
const (
	EventFrame     = "event"
	ExceptionFrame = "exception"
	ErrorFrame     = "error"
)

// Frame is one message of an application/vnd.amazon.eventstream body. Payload
// is as it came, JSON for everything Bedrock is known to send. A frame of kind
// error has no payload on the wire; its message stands in {"message":…}.
type Frame struct {
	Kind    string
	Type    string // the event's, the exception's or the error code's name
	Payload json.RawMessage
}

// FrameError says where an event stream is damaged.
type FrameError struct {
	Offset int // of the frame's first byte
	Reason string
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("read event stream: frame at byte %d: %s", e.Offset, e.Reason)
}

// The layout of a frame: total length, length of the headers, checksum of those
// two, headers, payload, checksum of all before.
const (
	preludeLen = 12
	frameMin   = preludeLen + 4
	frameMax   = 24 << 20 // what the SDKs accept: 16 MiB of payload and its headers, with room to spare
)

// DecodeFrames reads the whole frames that b begins with. rest is the number of
// bytes after them that are the beginning of another frame, 0 if b ends with a
// frame. A length or checksum that is wrong gives a *FrameError together with
// the frames before it. Payloads share memory with b.
func DecodeFrames(b []byte) (frames []Frame, rest int, err error) {
	for at := 0; at < len(b); {
		size, err := frameSize(b[at:])
		if err != "" {
			return frames, len(b) - at, &FrameError{at, err}
		}
		if size == 0 || size > len(b)-at {
			return frames, len(b) - at, nil
		}
		f, err := decodeFrame(b[at : at+size])
		if err != "" {
			return frames, len(b) - at, &FrameError{at, err}
		}
		frames = append(frames, f)
		at += size
	}
	return frames, 0, nil
}

// frameSize reads the prelude. It returns 0 when the prelude is not there yet.
func frameSize(b []byte) (size int, reason string) {
	if len(b) < preludeLen {
		return 0, ""
	}
	total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if want, got := crc32.ChecksumIEEE(b[:8]), binary.BigEndian.Uint32(b[8:]); want != got {
		return 0, fmt.Sprintf("the checksum of its lengths is %08x, expected %08x", got, want)
	}
	if total < frameMin || total > frameMax || headers > total-frameMin {
		return 0, fmt.Sprintf("its lengths are impossible (%d bytes, %d of them headers)", total, headers)
	}
	return int(total), ""
}

func decodeFrame(b []byte) (f Frame, reason string) {
	end := len(b) - 4
	if want, got := crc32.ChecksumIEEE(b[:end]), binary.BigEndian.Uint32(b[end:]); want != got {
		return f, fmt.Sprintf("its checksum is %08x, expected %08x", got, want)
	}
	split := preludeLen + int(binary.BigEndian.Uint32(b[4:]))
	headers, reason := decodeHeaders(b[preludeLen:split])
	if reason != "" {
		return f, reason
	}
	f = Frame{Kind: headers.kind, Payload: json.RawMessage(b[split:end])}
	switch f.Kind {
	case EventFrame:
		f.Type = headers.event
	case ExceptionFrame:
		f.Type = headers.exception
	case ErrorFrame:
		f.Type = headers.code
		f.Payload = append(ledger.AppendString([]byte(`{"message":`), headers.message), '}')
	default:
		return f, fmt.Sprintf("expected the message type event, exception or error, found %q", f.Kind)
	}
	return f, ""
}

// frameHeaders are the headers that mean something to Converse.
type frameHeaders struct{ kind, event, exception, code, message string }

func (h *frameHeaders) set(name, value string) {
	switch name {
	case ":message-type":
		h.kind = value
	case ":event-type":
		h.event = value
	case ":exception-type":
		h.exception = value
	case ":error-code":
		h.code = value
	case ":error-message":
		h.message = value
	}
}

// stringHeader is the one header type Bedrock uses.
const stringHeader = 7

func decodeHeaders(b []byte) (h frameHeaders, reason string) {
	for len(b) > 0 {
		name := int(b[0])
		if len(b) < 2+name {
			return h, "a header's name is cut off"
		}
		key, kind := string(b[1:1+name]), b[1+name]
		b = b[2+name:]
		prefix, size := headerSize(kind, b)
		if size < 0 || prefix+size > len(b) {
			return h, fmt.Sprintf("the header %q has no readable value", key)
		}
		if kind == stringHeader {
			h.set(key, string(b[prefix:prefix+size]))
		}
		b = b[prefix+size:]
	}
	return h, ""
}

// headerSize returns how many bytes a value takes after its type byte: those of
// its length, and its own; -1 for a type that does not exist.
func headerSize(kind byte, b []byte) (prefix, size int) {
	switch kind {
	case 0, 1: // true, false
		return 0, 0
	case 2: // byte
		return 0, 1
	case 3: // short
		return 0, 2
	case 4: // integer
		return 0, 4
	case 5, 8: // long, timestamp
		return 0, 8
	case 9: // uuid
		return 0, 16
	case 6, stringHeader: // byte array, string
		if len(b) >= 2 {
			return 2, int(binary.BigEndian.Uint16(b))
		}
	}
	return 0, -1
}

// EncodeFrame returns the bytes of a frame as Bedrock lays them out. Decoding
// them gives f again; a frame of kind error keeps nothing of its payload but
// the message.
func EncodeFrame(f Frame) []byte {
	var headers []byte
	payload := []byte(f.Payload)
	switch f.Kind {
	case ErrorFrame:
		headers = appendHeader(headers, ":error-code", f.Type)
		headers = appendHeader(headers, ":error-message", payloadMessage(f.Payload))
		payload = nil
	case ExceptionFrame:
		headers = appendHeader(headers, ":exception-type", f.Type)
		headers = appendHeader(headers, ":content-type", "application/json")
	default:
		headers = appendHeader(headers, ":event-type", f.Type)
		headers = appendHeader(headers, ":content-type", "application/json")
	}
	headers = appendHeader(headers, ":message-type", f.Kind)
	size := frameMin + len(headers) + len(payload)
	b := binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// maxHeader bounds a header's value: the event stream format cannot say more.
const maxHeader = 1<<15 - 1

func appendHeader(b []byte, name, value string) []byte {
	if len(value) > maxHeader {
		value = strings.ToValidUTF8(value[:maxHeader], "")
	}
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint16(append(b, stringHeader), uint16(len(value)))
	return append(b, value...)
}

func payloadMessage(payload []byte) string {
	var p struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(payload, &p) // a failure without a message is still one
	return p.Message
}

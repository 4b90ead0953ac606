package converse

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
)

// sdkFrame encodes a frame by the AWS SDK's encoder.
func sdkFrame(t testing.TB, f Frame) []byte {
	t.Helper()
	name := ":event-type"
	if f.Kind == ExceptionFrame {
		name = ":exception-type"
	}
	var b bytes.Buffer
	err := eventstream.NewEncoder().Encode(&b, eventstream.Message{Payload: f.Payload, Headers: eventstream.Headers{
		{Name: name, Value: eventstream.StringValue(f.Type)},
		{Name: ":content-type", Value: eventstream.StringValue("application/json")},
		{Name: ":message-type", Value: eventstream.StringValue(f.Kind)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func someFrames() []Frame {
	return []Frame{
		{EventFrame, "messageStart", json.RawMessage(`{"role":"assistant"}`)},
		{EventFrame, "contentBlockDelta", json.RawMessage(`{"contentBlockIndex":0,"delta":{"text":"é ✓ 🙂"}}`)},
		{EventFrame, "empty", json.RawMessage(``)},
		{ExceptionFrame, "throttlingException", json.RawMessage(`{"message":"slow down"}`)},
	}
}

func encodeAll(frames []Frame) (b []byte) {
	for _, f := range frames {
		b = append(b, EncodeFrame(f)...)
	}
	return b
}

func TestFramesAreThoseOfTheSDK(t *testing.T) {
	for _, f := range someFrames() {
		if diff := cmp.Diff(sdkFrame(t, f), EncodeFrame(f)); diff != "" {
			t.Errorf("%s: the SDK's bytes and ours differ (-sdk +ours):\n%s", f.Type, diff)
		}
	}
}

func TestDecodeFramesInvertsEncode(t *testing.T) {
	want := append(someFrames(), Frame{ErrorFrame, "InternalError", json.RawMessage(`{"message":"broken \"here\""}`)})
	got, rest, err := DecodeFrames(encodeAll(want))
	if err != nil || rest != 0 {
		t.Fatalf("rest %d, error %v", rest, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-encoded +decoded):\n%s", diff)
	}
}

func TestDecodeFramesTakesEveryHeaderType(t *testing.T) {
	headers := eventstream.Headers{
		{Name: "a", Value: eventstream.BoolValue(true)},
		{Name: "b", Value: eventstream.BoolValue(false)},
		{Name: "c", Value: eventstream.Int8Value(1)},
		{Name: "d", Value: eventstream.Int16Value(2)},
		{Name: "e", Value: eventstream.Int32Value(3)},
		{Name: "f", Value: eventstream.Int64Value(4)},
		{Name: "g", Value: eventstream.BytesValue([]byte{0, 1})},
		{Name: "h", Value: eventstream.TimestampValue(time.Unix(1, 0))},
		{Name: "i", Value: eventstream.UUIDValue{1, 2, 3}},
		{Name: ":event-type", Value: eventstream.StringValue("x")},
		{Name: ":message-type", Value: eventstream.StringValue("event")},
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, eventstream.Message{Headers: headers, Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	got, rest, err := DecodeFrames(b.Bytes())
	if err != nil || rest != 0 {
		t.Fatalf("rest %d, error %v", rest, err)
	}
	if diff := cmp.Diff([]Frame{{EventFrame, "x", json.RawMessage("{}")}}, got); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeFramesAtEveryCut: a stream cut at any byte gives the whole frames
// before the cut, and says how many bytes are left over.
func TestDecodeFramesAtEveryCut(t *testing.T) {
	frames := someFrames()
	all := encodeAll(frames)
	for cut := range all {
		got, rest, err := DecodeFrames(all[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if whole := len(encodeAll(frames[:len(got)])); whole+rest != cut {
			t.Fatalf("cut at %d: %d whole frames of %d bytes and %d left over", cut, len(got), whole, rest)
		}
	}
}

// TestDecodeFramesSeesEveryFlippedBit uses case 47, bytes of a real encoder.
func TestDecodeFramesSeesEveryFlippedBit(t *testing.T) {
	text, err := os.ReadFile("testdata/cases/47-eventstream-is-binary.txt")
	if err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	want, rest, err := DecodeFrames(b)
	if err != nil || rest != 0 || len(want) != 3 {
		t.Fatalf("%d frames, %d bytes left over, error %v", len(want), rest, err)
	}
	var damaged *FrameError
	for bit := range len(b) * 8 {
		spoiled := bytes.Clone(b)
		spoiled[bit/8] ^= 1 << (bit % 8)
		if _, _, err := DecodeFrames(spoiled); !errors.As(err, &damaged) {
			t.Fatalf("bit %d: expected a *FrameError, found %v", bit, err)
		}
	}
	if body, err := Assemble(want); err != nil || !strings.Contains(string(body), `{"text":"é✓🙂"}`) {
		t.Errorf("assembled %s, error %v", body, err)
	}
}

func TestFrameErrorNamesThePlace(t *testing.T) {
	b := encodeAll(someFrames()[:2])
	b[len(b)-1] ^= 1
	frames, _, err := DecodeFrames(b)
	want := FrameError{Offset: len(encodeAll(someFrames()[:1]))}
	var got *FrameError
	if !errors.As(err, &got) || got.Offset != want.Offset || !strings.Contains(got.Reason, "checksum") || len(frames) != 1 {
		t.Errorf("error %v after %d frames, expected a checksum error at byte %d after 1", err, len(frames), want.Offset)
	}
}

// TestImpossibleLengths: a prelude may be intact and still say what cannot be.
func TestImpossibleLengths(t *testing.T) {
	for _, c := range []struct{ total, headers uint32 }{{15, 0}, {16, 1}, {64, 49}, {64, 1 << 31}, {frameMax + 1, 0}, {0, 0}} {
		b := binary.BigEndian.AppendUint32(nil, c.total)
		b = binary.BigEndian.AppendUint32(b, c.headers)
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		b = append(b, make([]byte, 64)...)
		if size := int(c.total); size >= frameMin && size <= len(b) { // an intact sum, so that the lengths alone are at fault
			binary.BigEndian.PutUint32(b[size-4:], crc32.ChecksumIEEE(b[:size-4]))
		}
		if _, _, err := DecodeFrames(b); err == nil || !strings.Contains(err.Error(), "impossible") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

func TestDecodeFramesRefusesOtherMessageTypes(t *testing.T) {
	_, _, err := DecodeFrames(EncodeFrame(Frame{Kind: "rumour", Type: "x"}))
	if err == nil || !strings.Contains(err.Error(), `found "rumour"`) {
		t.Errorf("error %v", err)
	}
}

// FuzzDecodeFrames holds our decoder to the SDK's: what one reads as events the
// other reads as the same events.
func FuzzDecodeFrames(f *testing.F) {
	f.Add(encodeAll(someFrames()))
	f.Add(EncodeFrame(Frame{ErrorFrame, "code", nil}))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, rest, err := DecodeFrames(b)
		r := bytes.NewReader(b)
		for i, ours := range frames {
			m, sdkErr := eventstream.NewDecoder().Decode(r, nil)
			if sdkErr != nil {
				t.Fatalf("frame %d: the SDK says %v, we read %v", i, sdkErr, ours)
			}
			if kind := m.Headers.Get(":message-type"); kind == nil || kind.String() != ours.Kind {
				t.Fatalf("frame %d: message type %v, we read %q", i, kind, ours.Kind)
			}
			if ours.Kind != ErrorFrame && !bytes.Equal(m.Payload, ours.Payload) {
				t.Fatalf("frame %d: payloads differ", i)
			}
		}
		if r.Len() != rest {
			t.Fatalf("%d bytes left over, we say %d (error %v)", r.Len(), rest, err)
		}
	})
}

func FuzzEncodeFrame(f *testing.F) {
	f.Add("throttlingException", []byte(`{"message":"x"}`), true)
	f.Fuzz(func(t *testing.T, name string, payload []byte, exception bool) {
		want := Frame{EventFrame, name, payload}
		if exception {
			want.Kind = ExceptionFrame
		}
		if len(name) > maxHeader || len(payload) > 1<<20 {
			t.Skip("more than a frame holds")
		}
		got, rest, err := DecodeFrames(EncodeFrame(want))
		if err != nil || rest != 0 {
			t.Fatalf("rest %d, error %v", rest, err)
		}
		if got[0].Kind != want.Kind || got[0].Type != want.Type || !bytes.Equal(got[0].Payload, want.Payload) {
			t.Fatalf("encoded %v, decoded %v", want, got[0])
		}
	})
}

package proxy

import (
	"bytes"
	"io"
	"slices"
	"time"
)

// passage is a stream on its way to the client. Where its record has to be on the
// disk first, the piece that says its end is held back until the stream has ended
// and is recorded: clients act on it, and wait for no more.
type passage struct {
	*attempt
	w    *writer
	from io.Reader
	buf  []byte
	held []byte
}

// read reads the next piece into buf. What is held goes on where the upstream
// leaves the stream open behind its end: nobody knows for how long.
func (p *passage) read() (n int, err error) {
	if len(p.held) == 0 {
		return p.from.Read(p.buf)
	}
	came := make(chan struct{})
	go func() {
		defer close(came)
		err = contained(func() (err error) {
			n, err = p.from.Read(p.buf)
			return err
		})
	}()
	t := time.NewTimer(maxTail)
	defer t.Stop()
	select {
	case <-came:
	case <-t.C:
		p.release()
		<-came
	}
	return n, err
}

// take keeps a piece and passes it on, unless it has to be held. What was held
// before was not the end, unless the piece goes on with it.
func (p *passage) take(b []byte) {
	goesOn := len(p.held) > 0 && within(p.Body)
	p.keep(b)
	if !goesOn {
		p.release()
	}
	if goesOn || p.w.durable && saysEnd(p.Body, len(b)) {
		p.held = append(p.held, b...)
		return
	}
	p.send(b)
}

func (p *passage) release() {
	if len(p.held) > 0 {
		p.send(p.held)
		p.held = nil
	}
}

func (p *passage) send(b []byte) {
	_, err := p.w.Write(b)
	p.w.flush()
	if err != nil {
		p.gone, p.Err = true, clientGone
	}
}

// within reports whether a stream stops within an event. Frames are not taken
// apart: none that says something new comes behind one that says the end.
func within(stream []byte) bool {
	return isFrames(stream) || !bytes.HasSuffix(stream, []byte("\n\n")) && !bytes.HasSuffix(stream, []byte("\n\r\n"))
}

func isFrames(stream []byte) bool { return len(stream) > 0 && stream[0] == 0 }

// saysEnd reports whether the last n bytes of a stream may say that the answer is
// whole. A text that looks so is held for as long as it is the last that came.
func saysEnd(stream []byte, n int) bool {
	const longest = 64 // of what says so, and may be cut
	ends := []string{
		"message_stop",                                      // Anthropic
		"[DONE]", `"finish_reason":"`, `"finish_reason": "`, // OpenAI
	}
	if isFrames(stream) {
		ends = []string{ // which no text in a frame can hold
			":event-type\x07\x00\x08metadata", ":event-type\x07\x00\x0bmessageStop", // Converse
			`"bytes":"eyJ0eXBlIjoibWVzc2FnZV9zdG9w`, `"bytes": "eyJ0eXBlIjoibWVzc2FnZV9zdG9w`, // Anthropic: {"type":"message_stop
		}
	}
	began := max(0, len(stream)-n)
	last := stream[began:]
	if within(stream[:began]) {
		last = stream[max(0, began-longest):]
	}
	for _, none := range []string{`"finish_reason":""`, `"finish_reason": ""`} { // of some services, in each event
		last = bytes.ReplaceAll(last, []byte(none), nil)
	}
	return slices.ContainsFunc(ends, func(end string) bool { return bytes.Contains(last, []byte(end)) })
}

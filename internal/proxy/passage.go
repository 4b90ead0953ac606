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
// before was not the end.
func (p *passage) take(b []byte) {
	p.keep(b)
	p.release()
	if p.w.durable && saysEnd(p.Body, len(b)) {
		p.held = bytes.Clone(b)
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

// saysEnd reports whether the last n bytes of a stream may say that the answer is
// whole. A text that looks so is held for as long as it is the last that came.
func saysEnd(stream []byte, n int) bool {
	within := func(more int, ends ...string) bool {
		last := stream[max(0, len(stream)-n-more):]
		return slices.ContainsFunc(ends, func(end string) bool { return bytes.Contains(last, []byte(end)) })
	}
	return within(16<<10, ":event-type\x07\x00\x08metadata", ":event-type\x07\x00\x0bmessageStop") || // Converse: before what the frame holds
		within(64, "message_stop", "eyJ0eXBlIjoibWVzc2FnZV9zdG9w") || // Anthropic, and in chunks: {"type":"message_stop
		within(64, "[DONE]", `"finish_reason":"`, `"finish_reason": "`) // OpenAI
}

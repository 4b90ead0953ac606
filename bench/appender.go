package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"sync"
)

// appender is the least that a durable record can be: the bodies of calls as
// they came, one behind the other in a file, without an order of runs, a look
// for secrets or a sum. What comes while the disk is at work goes with the next
// sync.
type appender struct {
	file *os.File

	mu      sync.Mutex
	waiting *together
	writing bool
	text    []byte
}

// together is what one sync makes durable.
type together struct {
	texts [][]byte
	done  chan struct{} // closed when it is on the disk, or never will be
	err   error
}

// add returns when the texts are on the disk.
func (a *appender) add(texts ...[]byte) error {
	a.mu.Lock()
	if a.waiting == nil {
		a.waiting = &together{done: make(chan struct{})}
	}
	t := a.waiting
	t.texts = append(t.texts, texts...)
	if !a.writing {
		a.writing = true
		go a.write()
	}
	a.mu.Unlock()
	<-t.done
	return t.err
}

func (a *appender) write() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.waiting != nil {
		t := a.waiting
		a.waiting = nil
		a.mu.Unlock()
		t.err = a.sync(t.texts)
		close(t.done)
		a.mu.Lock()
	}
	a.writing = false
}

func (a *appender) sync(texts [][]byte) error {
	a.text = a.text[:0]
	for _, t := range texts {
		a.text = append(a.text, t...)
	}
	if _, err := a.file.Write(a.text); err != nil {
		return err
	}
	return syncData(a.file)
}

// close closes the file behind the last sync.
func (a *appender) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.file.Close() // whatever is in it was synced
}

// keep appends a request and its answer before the answer is passed on.
func (a *appender) keep(request []byte, r *http.Response) error {
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(answer))
	return a.add(request, answer)
}

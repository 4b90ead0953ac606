package main

import (
	"fmt"
	"os"
	"path/filepath"

	vcr "gopkg.in/dnaeon/go-vcr.v3/cassette"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

// turnBytes is how much a turn of a generated run brings.
const turnBytes = 10 << 10

// generated returns the cassette of a run of so many turns.
func generated(turns, bytes int) ([]byte, error) {
	return recordertest.Cassette(recordertest.Options{Turns: turns, Bytes: bytes})
}

// saved writes a generated run's cassette into the folder.
func (b *bench) saved(turns, bytes int) (path string, text []byte, err error) {
	if text, err = generated(turns, bytes); err != nil {
		return "", nil, err
	}
	path = filepath.Join(b.dir, fmt.Sprintf("%d-%d.yaml", turns, bytes))
	return path, text, os.WriteFile(path, text, 0o600)
}

// uniqueBytes is what a run says once: its beginning, each answer of the model
// and each result of a tool.
func uniqueBytes(turns, bytes int) (int64, error) {
	n := int64(len(recordertest.Start()))
	_, err := recordertest.Generate(recordertest.Options{Turns: turns, Bytes: bytes},
		loop.SinkFunc(func(_ edge.Call, r edge.Return, _ []ledger.Event) error {
			n += int64(len(r.Body))
			return nil
		}))
	return n, err
}

// plainVCR records a generated run as go-vcr does: every request whole. It
// returns the path that go-vcr loads and the size of the file.
func (b *bench) plainVCR(turns, bytes int) (name string, size int64, err error) {
	name = filepath.Join(b.dir, fmt.Sprintf("plain-%d-%d", turns, bytes))
	c := vcr.New(name)
	_, err = recordertest.Generate(recordertest.Options{Turns: turns, Bytes: bytes},
		loop.SinkFunc(func(call edge.Call, r edge.Return, _ []ledger.Event) error {
			body := string(call.Use.Input)
			if call.Kind == edge.Model {
				body = string(call.Request.Body())
			}
			c.AddInteraction(&vcr.Interaction{
				Request:  vcr.Request{Method: "POST", URL: "https://x.invalid/" + string(call.Kind), Body: body},
				Response: vcr.Response{Code: 200, Body: string(r.Body)},
			})
			return nil
		}))
	if err != nil {
		return name, 0, err
	}
	if err := c.Save(); err != nil {
		return name, 0, err
	}
	info, err := os.Stat(name + ".yaml")
	if err != nil {
		return name, 0, err
	}
	return name, info.Size(), nil
}

// opened parses a cassette and decodes its events.
func opened(text []byte) (*recorder.Cassette, error) {
	c, err := recorder.Parse("run.yaml", text)
	if err != nil {
		return nil, err
	}
	_, err = c.Events()
	return c, err
}

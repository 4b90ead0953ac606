package recorder_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"

	vcr "gopkg.in/dnaeon/go-vcr.v3/cassette"
)

// thousand is a run of 1,000 calls.
func thousand() recordertest.Options { return recordertest.Options{Turns: 500, Bytes: 10 << 10} }

func written(b *testing.B, o recordertest.Options) (path string, size int64) {
	b.Helper()
	text, err := recordertest.Cassette(o)
	if err != nil {
		b.Fatal(err)
	}
	path = filepath.Join(b.TempDir(), "run.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return path, int64(len(text))
}

func BenchmarkReadFile(b *testing.B) {
	path, size := written(b, thousand())
	b.SetBytes(size)
	for b.Loop() {
		if _, err := os.ReadFile(path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	path, size := written(b, thousand())
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		if err := recorder.Verify(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path, size := written(b, thousand())
	b.SetBytes(size)
	for b.Loop() {
		if _, err := recorder.Open(path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenAndEvents(b *testing.B) {
	path, size := written(b, thousand())
	b.SetBytes(size)
	for b.Loop() {
		c, err := recorder.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Events(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlainGoVCRLoad loads the same run as go-vcr itself writes it, every
// request whole, at 100 calls; the file grows with the square of the calls.
func BenchmarkPlainGoVCRLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "plain")
	c := vcr.New(path)
	_, err := recordertest.Generate(recordertest.Options{Turns: 50, Bytes: 10 << 10},
		loop.SinkFunc(func(call edge.Call, ret edge.Return, _ []ledger.Event) error {
			body := string(call.Use.Input)
			if call.Kind == edge.Model {
				body = string(call.Request.Body())
			}
			c.AddInteraction(&vcr.Interaction{Request: vcr.Request{Method: "POST", URL: "https://x.invalid/", Body: body},
				Response: vcr.Response{Code: 200, Body: string(ret.Body)}})
			return nil
		}))
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Save(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path + ".yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		if _, err := vcr.Load(path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen100 opens the run of BenchmarkPlainGoVCRLoad as we write it.
func BenchmarkOpen100(b *testing.B) {
	path, size := written(b, recordertest.Options{Turns: 50, Bytes: 10 << 10})
	b.SetBytes(size)
	for b.Loop() {
		if _, err := recorder.Open(path); err != nil {
			b.Fatal(err)
		}
	}
}

// timed runs a sink inside a generated run of b.N returns and counts only the
// time in it.
func timed(b *testing.B, took func(edge.Call, edge.Return, []ledger.Event) error) {
	left := b.N
	b.StopTimer()
	b.ResetTimer()
	_, err := recordertest.Generate(recordertest.Options{Turns: b.N + 2, Bytes: 10 << 10},
		loop.SinkFunc(func(call edge.Call, ret edge.Return, events []ledger.Event) error {
			if left--; left < 0 {
				return errEnough
			}
			b.StartTimer()
			err := took(call, ret, events)
			b.StopTimer()
			return err
		}))
	if err != errEnough {
		b.Fatal(err)
	}
}

const errEnough = syscall.ECANCELED // ends a generated run

func BenchmarkTookFile(b *testing.B) {
	w, err := recorder.Create(filepath.Join(b.TempDir(), "run.yaml"), recordertest.Header())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	timed(b, w.Took)
}

func BenchmarkTookMemory(b *testing.B) {
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		b.Fatal(err)
	}
	timed(b, w.Took)
}

// BenchmarkBareWriteSync writes the same returns and syncs each, nothing else.
func BenchmarkBareWriteSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	timed(b, func(_ edge.Call, ret edge.Return, _ []ledger.Event) error {
		if _, err := f.Write(ret.Body); err != nil {
			return err
		}
		return f.Sync()
	})
}

func BenchmarkCopyPrefix(b *testing.B) {
	text, err := recordertest.Cassette(thousand())
	if err != nil {
		b.Fatal(err)
	}
	c, err := recorder.Parse("run.yaml", text)
	if err != nil {
		b.Fatal(err)
	}
	n, err := c.EventCount()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w, err := recorder.NewMemory(recordertest.Header())
		if err != nil {
			b.Fatal(err)
		}
		if err := w.CopyPrefix(c, n-1); err != nil {
			b.Fatal(err)
		}
	}
}

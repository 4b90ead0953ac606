package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`

// start runs the command until stop is called, which answers run's error.
func start(t *testing.T, args ...string) (url string, stop func() error) {
	t.Helper()
	r, w := io.Pipe()
	stdin, end := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(t.Context(), append(args, "--until-eof"), stdin, w, io.Discard)
		w.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("read url: %v", <-done)
	}
	return strings.TrimSpace(line), func() error { end.Close(); return <-done }
}

func TestServesUntilInputEnds(t *testing.T) {
	url, stop := start(t, "--fault", "throttle@1", "--script", "hello")
	resp, err := http.Post(url+"/model/x/converse", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %d, want the fault's 429", resp.StatusCode)
	}
	if err := stop(); err != nil {
		t.Errorf("end: %v", err)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("still serving after the end")
	}
}

func TestServesUntilInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, nil, nil, &out, io.Discard); err != nil || !strings.HasPrefix(out.String(), "http://127.0.0.1:") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

func TestWritesItsAuthority(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	url, stop := start(t, "--tls-ca", ca)
	pem, err := os.ReadFile(ca)
	if err != nil || !bytes.Contains(pem, []byte("BEGIN CERTIFICATE")) || !strings.HasPrefix(url, "https://") {
		t.Errorf("url %s, authority %q, %v", url, pem, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{{"--script", "x"}, {"--fault", "x"}, {"--fault", "cut@0"}, {"extra"}, {"--nosuch"}, {"--addr", "256.0.0.1:1"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, nil, &out, io.Discard); err == nil || out.Len() > 0 {
			t.Errorf("%q: error %v, printed %q", args, err, out.String())
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain makes this binary the reverse proxy where it is started as one.
func TestMain(m *testing.M) {
	if target := os.Getenv(reverseVariable); target != "" {
		os.Exit(reverseMain(target))
	}
	os.Exit(m.Run())
}

func smallLoad() load {
	return load{times: 1, warm: 10, burst: 60, slow: 20, streams: 2, short: 10, tall: 20, replays: 100, long: 200, aside: 20, conversations: 3}
}

// fakeMitm is a folder with a mitmdump in it that is the reverse proxy of these
// tests, and says it keeps what it sees.
func fakeMitm(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, "mitmdump", fmt.Sprintf(`[ "$1" = --version ] && { echo "Mitmproxy: 1.2.3"; exit; }
head -c 2000000 /dev/zero >"$8"
%s="${2#reverse:}" %s="127.0.0.1:$6" exec %s`, reverseVariable, addressVariable, self))
}

// script is a folder with a shell script in its folder bin.
func script(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestProxyRows measures the whole section once, with little traffic.
func TestProxyRows(t *testing.T) {
	var notes bytes.Buffer
	b := &bench{at: "proxy", dir: t.TempDir(), mitm: fakeMitm(t), notes: &notes}
	if err := b.proxies(t.Context(), smallLoad()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range b.rows {
		got[r.What] = r.target()
		if r.Ours.Value < 0 || r.Ours.Value == 0 && r.Ours.Unit != callsUnit || r.Theirs != nil && (r.Ratio <= 0 || r.Inverse) {
			t.Errorf("row %+v", r)
		}
		if r.Ours.Unit == callsUnit && !r.OK {
			t.Errorf("calls are lost: %+v", r)
		}
	}
	want := map[string]string{
		"recording, as its clients see 60 calls":         "≥ 0.95 ×",
		"recording, 60 calls and the end of its process": "none",
		"recording": "≥ 7 ×",
		"recording, durable before an answer's last byte":  "≥ 0.75 ×",
		"replay of these calls, in any order":              "≥ 2 ×",
		"its start, with 70 calls on tape":                 "none",
		"first chunk of a stream, recording":               "≤ 1.15 ×",
		"replay of a call of a run of 20":                  "≤ 1.3 ×",
		"failures in 200 recorded calls":                   "≤ 0 calls",
		"of these, on no intact and sealed cassette":       "≤ 0 calls",
		"peak memory while they are recorded":              "≤ 64 MB",
		"the same":                                         "none",
		"the end of that process, all written":             "none",
		"recording, all of 200 calls and that end":         "none",
		"the same, signed with AWS keys":                   "none",
		"the same, every call a run of its own":            "none",
		"the same, conversations of 12 calls, 12 to 57 KB": "none",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("targets (-want +got):\n%s", d)
	}
	if notes.Len() > 0 {
		t.Errorf("said %s", notes.String())
	}
}

// TestWhatCannotBeMeasuredIsNotPassed: without mitmproxy its row is there, is not
// ok, and says why.
func TestWhatCannotBeMeasuredIsNotPassed(t *testing.T) {
	var notes bytes.Buffer
	c := &contest{bench: &bench{at: "proxy", dir: t.TempDir(), mitm: noMitm, notes: &notes}}
	_, err := c.mitmdump(t.Context())
	if err == nil {
		t.Fatal("found mitmdump")
	}
	c.lacks("recording", "mitmdump", 7, err)
	r := c.rows[0]
	cells := r.cells()
	if d := cmp.Diff([]string{"recording", "not measured: --mitmproxy none", "mitmdump", "–", "–", "≥ 7 ×", "NOT MEASURED"}, cells); d != "" || r.OK {
		t.Errorf("ok %t (-want +got):\n%s", r.OK, d)
	}
	if !strings.Contains(notes.String(), "NOT MEASURED: recording against mitmdump: --mitmproxy none") {
		t.Errorf("said %q", notes.String())
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"not_measured":"--mitmproxy none","ok":false`) {
		t.Errorf("JSON %s, error %v", text, err)
	}
}

func TestMitmproxyIsInstalled(t *testing.T) {
	found := func(path, folder string) (mitm, error) {
		t.Setenv("PATH", path)
		b := &bench{dir: t.TempDir(), mitm: folder}
		return b.mitmdump(t.Context())
	}
	path := os.Getenv("PATH")
	if m, err := found(path, fakeMitm(t)); err != nil || m.name != "mitmdump 1.2.3" {
		t.Errorf("found %+v, error %v", m, err)
	}
	for want, c := range map[string][2]string{
		"no python3":                    {t.TempDir(), ""},
		"python3 -m venv":               {filepath.Join(script(t, "python3", "echo no venv here >&2; exit 1"), "bin"), ""},
		"expected Mitmproxy: VERSION":   {path, script(t, "mitmdump", "echo 7")},
		"no venv here":                  {filepath.Join(script(t, "python3", "echo no venv here >&2; exit 1"), "bin"), "" + t.TempDir()},
		"pip install mitmproxy==11.0.2": {filepath.Join(script(t, "python3", `/bin/mkdir -p "$3/bin"; printf '#!/bin/sh\necho no such version >&2; exit 1' >"$3/bin/python"; /bin/chmod +x "$3/bin/python"`), "bin"), ""},
	} {
		if _, err := found(c[0], c[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

func TestFormsHaveTheirSize(t *testing.T) {
	ask, answer := askForm(), answerForm()
	if n := len(ask.with(7)); n != askBytes {
		t.Errorf("a request has %d bytes", n)
	}
	if n := len(answer.with(7)); n != answerBytes {
		t.Errorf("an answer has %d bytes", n)
	}
	for _, text := range [][]byte{ask.with(7), answer.with(7)} {
		if !json.Valid(text) {
			t.Errorf("no JSON: %.200s", text)
		}
	}
	if n, err := ask.number(ask.with(1234567)); err != nil || n != 1234567 {
		t.Errorf("number %d, error %v", n, err)
	}
	for _, text := range [][]byte{nil, ask.with(7)[1:], append([]byte("x"), ask.with(7)[1:]...)} {
		if _, err := ask.number(text); err == nil {
			t.Errorf("took %.50q", text)
		}
	}
}

// TestConversationsGrow: the upstream answers each turn of a conversation with
// its own answer, and requests grow as the row says.
func TestConversationsGrow(t *testing.T) {
	up, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	if b := talks(t.Context(), up.addr, 5, 20); b.failed > 0 || b.calls != 20*talkCalls || up.arrived.Load() != 20*talkCalls {
		t.Errorf("%d of %d calls failed, %d arrived: %v", b.failed, b.calls, up.arrived.Load(), b.first)
	}
	var messages []string
	for i := range talkCalls {
		at := turnOf{5, i / loopTurns, i % loopTurns}
		messages = append(messages, at.asked())
		body := talkBody(messages)
		if !json.Valid(body) || !bytes.Equal(talkAnswer(body), at.answer()) {
			t.Errorf("%s: answered %.100s", at, talkAnswer(body))
		}
		if n := len(body); i == 0 && n/1000 != 12 || i == talkCalls-1 && n/1000 != 57 {
			t.Errorf("request %d has %d bytes", i, n)
		}
		messages = append(messages, at.message())
	}
}

// TestClientNotices: an answer that is not the call's own, a refusal, a short
// answer and a connection that ends are failures.
func TestClientNotices(t *testing.T) {
	ask, answer := askForm(), answerForm()
	for want, handler := range map[string]http.HandlerFunc{
		"expected the answer": func(w http.ResponseWriter, r *http.Request) { reply(w, answer.with(1)) },
		"status 500":          func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"unexpected EOF": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write(answer.with(2)[:100])
			panic(http.ErrAbortHandler)
		},
		"EOF": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s := httptest.NewServer(handler)
		l := &line{addr: strings.TrimPrefix(s.URL, "http://")}
		if err := l.call(askPath, ask.with(2), answer.with(2)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
		s.Close()
	}
	u := &upstream{ask: ask, answer: form{answer.before + "0", answer.after}}
	b := u.calls(t.Context(), "127.0.0.1:1", "", numbers(1, 5))
	if b.failed != 5 || b.whole() == nil {
		t.Errorf("nobody listens, and %d of 5 calls failed: %v", b.failed, b.whole())
	}
}

func TestChildrenAreWatched(t *testing.T) {
	sh := func(text string) *exec.Cmd { return exec.CommandContext(t.Context(), "sh", "-c", text) }
	_, err := startChild(t.Context(), "a proxy", "", sh("echo no luck >&2; exit 3"))
	if err == nil || !strings.Contains(err.Error(), "no luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v", err)
	}
	_, err = startChild(t.Context(), "a proxy", "127.0.0.1:1", sh("exit 0"))
	if err == nil || !strings.Contains(err.Error(), "before it listened: with status 0") {
		t.Errorf("error %v", err)
	}
	c, err := startChild(t.Context(), "a proxy", "", sh("trap 'echo disk full >&2; exit 4' INT; echo listening on http://127.0.0.1:8779: recording >&2; sleep 60 >/dev/null 2>&1 & wait"))
	if err != nil {
		t.Fatal(err)
	}
	if c.addr != "127.0.0.1:8779" {
		t.Errorf("it listens at %q", c.addr)
	}
	if q, err := c.peak(); err == nil && (q.Unit != bytesUnit || q.Value < 100_000) { // where there is a /proc
		t.Errorf("it has %v", q)
	}
	if _, err := c.end(); err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("error %v", err)
	}
}

func TestCleanEnvironment(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "HTTPS_PROXY", "http_proxy"} {
		t.Setenv(name, "x")
	}
	for _, v := range cleanEnvironment("A=b") {
		if strings.HasSuffix(v, "=x") {
			t.Errorf("%s is left", v)
		}
	}
}

// TestIntact counts what is on whole, sealed cassettes and on no others.
func TestIntact(t *testing.T) {
	text, err := generated(5, 300)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	flipped := bytes.Clone(text)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		text  []byte
		calls int
		err   string
	}{
		"whole":    {text, 10, ""},
		"unsealed": {bytes.Join(lines[:len(lines)-2], nil), 0, "not sealed"},
		"torn":     {text[:len(text)/2], 0, "torn"},
		"flipped":  {flipped, 0, "interaction"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "run.yaml"), c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, runs, err := intact(dir)
		if c.err == "" && (n < 5 || runs != 1 || err != nil || onTape(dir, n, 1) != nil || onTape(dir, n+1, 1) == nil || onTape(dir, n, 2) == nil) {
			t.Errorf("%s: %d calls in %d runs, error %v", name, n, runs, err)
		}
		if c.err != "" && (n != 0 || err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %d calls, error %v, expected %q", name, n, err, c.err)
		}
	}
}

func TestPairedRowsTakeTheMiddleRatio(t *testing.T) {
	r := paired("w", perSecond, figures{10, 300, 40}, "a", figures{20, 200, 50}, 0, 0.9).judged()
	if r.Ours.Value != 40 || r.Theirs.Value != 50 || r.Ratio != 0.8 || r.OK || r.Inverse {
		t.Errorf("row %+v", r)
	}
	r = paired("w", nanoseconds, figures{10, 30}, "a", figures{10, 10}, 1.15, 0).judged()
	if r.Ratio != 3 || r.OK {
		t.Errorf("row %+v", r)
	}
}

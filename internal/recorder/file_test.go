package recorder_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

func TestFileHoldsWhatMemoryHolds(t *testing.T) {
	o := recordertest.Options{Turns: 5, Bytes: 200, Odd: true, Wire: true}
	path := filepath.Join(t.TempDir(), "run.yaml")
	w, err := recorder.Create(path, recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recordertest.Generate(o, w); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := record(t, o).bytes; !bytes.Equal(got, want) {
		t.Error("the file differs from what is recorded in memory")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o, want 600", info.Mode().Perm())
	}
	if err := recorder.Verify(got); err != nil {
		t.Error(err)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := recorder.Create(path, recordertest.Header())
	var file *recorder.FileError
	if !errors.Is(err, recorder.ErrExists) || !errors.As(err, &file) || !strings.Contains(file.Hint, "--out") {
		t.Errorf("Create: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file holds %q now", b)
	}
}

func TestCreateSaysWhatIsWrongWithTheFolder(t *testing.T) {
	_, err := recorder.Create(filepath.Join(t.TempDir(), "none", "run.yaml"), recordertest.Header())
	var file *recorder.FileError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &file) || file.Hint == "" {
		t.Errorf("Create in a folder that is not there: %v", err)
	}
}

// TestCreatableSaysWhatCreateWould, and leaves nothing behind.
func TestCreatableSaysWhatCreateWould(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, hint := range map[string]string{
		file: "never overwritten", filepath.Join(dir, "none", "c.yaml"): "create the folder first", filepath.Join(file, "c.yaml"): "part of the path is a file",
		filepath.Join(dir, strings.Repeat("n", 300)): "", filepath.Join(dir, "good.yaml"): "good",
	} {
		err := recorder.Creatable(name)
		if good := hint == "good"; good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		} else if file := new(recorder.FileError); !good && (!errors.As(err, &file) || !strings.Contains(file.Hint, hint)) {
			t.Errorf("%s: %v, expected the hint %q", name, err, hint)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

func TestCreateOfABadHeaderLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	h := recordertest.Header()
	h.Start = []byte(`{"task":""}`)
	if _, err := recorder.Create(filepath.Join(dir, "run.yaml"), h); err == nil {
		t.Error("a header without a task was taken")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Law 9: nothing of the machine is in a header.
func TestHeaderHoldsNoPath(t *testing.T) {
	h := recordertest.Header()
	h.Parent = &recorder.Parent{Run: "a", File: "/home/someone/cassettes/a.yaml", At: 2}
	w, err := recorder.NewMemory(h)
	if err != nil {
		t.Fatal(err)
	}
	if b := w.Bytes(); bytes.Contains(b, []byte("someone")) || !bytes.Contains(b, []byte(`"file":"a.yaml"`)) {
		t.Errorf("header: %s", b)
	}
	h.Parent.File = `C:\Users\someone\a.yaml`
	if w, err = recorder.NewMemory(h); err != nil || bytes.Contains(w.Bytes(), []byte("someone")) {
		t.Errorf("header: %s, %v", w.Bytes(), err)
	}
	for _, path := range []string{"/srv/world", `C:\world`, "~/world", `\\host\world`} {
		h := recordertest.Header()
		h.World = &recorder.World{Name: path}
		if _, err := recorder.NewMemory(h); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", path)) {
			t.Errorf("world %q: %v", path, err)
		}
	}
}

func TestHeaderRefusesWhatOtherReadersCannotTake(t *testing.T) {
	start := func(context string) []byte {
		return []byte(`{"task":"t","model":"m","request":{},"limits":{},"context":` + context + `}`)
	}
	for name, s := range map[string][]byte{
		"long name": start(`{"` + strings.Repeat("k", 2000) + `":1}`),
		"deep":      start(strings.Repeat("[", 2000) + strings.Repeat("]", 2000)),
		"secret":    start(`{"key":"AKIAIOSFODNN7EXAMPLE"}`),
	} {
		h := recordertest.Header()
		h.Start = s
		if _, err := recorder.NewMemory(h); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestHeaderKeepsUnknownMembers(t *testing.T) {
	h := recordertest.Header()
	h.Extra = map[string]json.RawMessage{"later": json.RawMessage(`{"a":[1,"\u2028"]}`)}
	w, err := recorder.NewMemory(h)
	if err != nil {
		t.Fatal(err)
	}
	if got := parse(t, w.Bytes()).Header().Extra["later"]; string(got) != `{"a":[1,"\u2028"]}` {
		t.Errorf("read back %s", got)
	}
}

// A patch may hold what a tool result may not.
func TestHeaderRefusesASecretInAPatch(t *testing.T) {
	h := recordertest.Header()
	h.Parent = &recorder.Parent{Run: "a", File: "a.yaml", At: 4, Patch: json.RawMessage(`[{"value":"AKIAIOSFODNN7EXAMPLE"}]`)}
	if _, err := recorder.NewMemory(h); err == nil || !strings.Contains(err.Error(), "patch") || strings.Contains(err.Error(), "AKIA") {
		t.Errorf("NewMemory: %v", err)
	}
}

// A secret that a stream holds in two pieces is whole in the answer.
func TestWriterRefusesASecretInPieces(t *testing.T) {
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	e := edge.Func(func(context.Context, edge.Call) (edge.Return, error) {
		body := strings.Replace(streamed, "hello", "AKIAIOSFODNN7EXAMPLE", 1)
		return edge.Return{Body: []byte(body), Origin: edge.Live, Wire: wireOf(200, bytes.Join([][]byte{
			frame("messageStart", `{"role":"assistant"}`),
			frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"AKIAIOSFO"}}`),
			frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"DNN7EXAMPLE"}}`),
		}, nil), "application/vnd.amazon.eventstream", "")}, nil
	})
	s, _, err := loop.New(recordertest.Start())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loop.Run(t.Context(), s, e, w); err == nil || !strings.Contains(err.Error(), "aws access key") {
		t.Errorf("Run: %v", err)
	}
}

// A line with a secret is refused, and the recording goes on without it.
func TestWriterRefusesSecrets(t *testing.T) {
	w, s, _ := inMemory(t)
	body := []byte(`{"output":{"message":{"content":[{"text":"key AKIAIOSFODNN7EXAMPLE"}],"role":"assistant"}},"stopReason":"end_turn"}`)
	ret := edge.Return{Body: body, Origin: edge.Live}
	_, events, err := s.Apply(ret)
	if err != nil {
		t.Fatal(err)
	}
	before := w.Bytes()
	err = w.Took(s.Next()[0], ret, events)
	if err == nil || !strings.Contains(err.Error(), "aws access key") || strings.Contains(err.Error(), "AKIA") {
		t.Errorf("Took: %v", err)
	}
	if !bytes.Equal(before, w.Bytes()) {
		t.Error("something was written")
	}
	if _, err := recordertest.Generate(recordertest.Options{Turns: 2, Bytes: 10}, w); err != nil {
		t.Errorf("after a refused line: %v", err)
	}
}

func TestWriterRefusesEventsOutOfOrder(t *testing.T) {
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string][]ledger.Event{
		"none": nil, "gap": {{Seq: 3}}, "again": {{Seq: 1}}, "finished alone": {{Seq: 2, Type: ledger.RunFinished}},
	} {
		if err := w.Took(edge.Call{}, edge.Return{}, events); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := recordertest.Generate(recordertest.Options{Turns: 2}, w); err != nil {
		t.Fatal(err)
	}
	if err := w.Took(edge.Call{}, edge.Return{}, []ledger.Event{{Seq: w.Seq() + 1}}); err == nil {
		t.Error("an event after run.finished was taken")
	}
}

// recordTo is set in the process that TestKilledRecordingKeepsItsEvents kills.
const recordTo = "RECORDER_TEST_RECORD_TO"

// TestRecordUntilKilled is the process that is killed: it records and says, on
// stdout, how far it has come.
func TestRecordUntilKilled(t *testing.T) {
	path := os.Getenv(recordTo)
	if path == "" {
		t.Skip("run by TestKilledRecordingKeepsItsEvents")
	}
	w, err := recorder.Create(path, recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	_, err = recordertest.Generate(recordertest.Options{Turns: 100000, Bytes: 2000}, loop.SinkFunc(func(call edge.Call, ret edge.Return, events []ledger.Event) error {
		if err := w.Took(call, ret, events); err != nil {
			return err
		}
		fmt.Printf("took %d\n", w.Seq())
		return nil
	}))
	t.Fatalf("was not killed: %v", err)
}

func TestKilledRecordingKeepsItsEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	child := exec.Command(os.Args[0], "-test.run=^TestRecordUntilKilled$", "-test.v")
	child.Env = append(os.Environ(), recordTo+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := 0
	for lines := bufio.NewScanner(out); said < 60 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "took %d", &said)
	}
	if err := child.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	_ = child.Wait() // says that it was killed
	c, err := recorder.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.EventCount()
	if said < 60 || n < said || err != nil || c.Sealed() {
		t.Errorf("%d events of at least %d survive (sealed %v): %v", n, said, c.Sealed(), err)
	}
}

func TestOpenSaysWhatAFileIs(t *testing.T) {
	good := string(record(t, recordertest.Options{Turns: 2, Bytes: 10}).bytes)
	bomb := "---\na: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	cases := map[string]struct {
		text string
		want error
	}{
		"empty":          {"", recorder.ErrEmpty},
		"binary":         {"\x7fELF\x00\x00", recorder.ErrNotYAML},
		"prose":          {"hello", recorder.ErrNotYAML},
		"other YAML":     {"---\na: b\n", recorder.ErrNotCassette},
		"foreign":        {"---\nversion: 2\ninteractions:\n- id: 0\n", recorder.ErrNotOurs},
		"newer":          {strings.Replace(good, `{"format":1,`, `{"format":2,`, 1), recorder.ErrNewer},
		"newer, far":     {"---\nversion: 2\ninvestigator: {\"format\":900,\"x\":1}\ninteractions:\n", recorder.ErrNewer},
		"cut":            {good[:30], recorder.ErrCutHeader},
		"cut short":      {good[:6], recorder.ErrCutHeader},
		"billion laughs": {bomb + "version: 2\ninteractions:\n", recorder.ErrNotOurs},
	}
	for name, c := range cases {
		path := filepath.Join(t.TempDir(), "some.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := recorder.Open(path)
		var file *recorder.FileError
		if !errors.Is(err, c.want) || !errors.As(err, &file) || file.Hint == "" || !strings.Contains(err.Error(), path) || !recorder.Unusable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := recorder.Open(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, fs.ErrNotExist) || recorder.Unusable(err) {
		t.Errorf("missing: %v", err)
	}
	if _, err := recorder.Open(t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
	path := filepath.Join(t.TempDir(), "bomb.yaml")
	if err := os.WriteFile(path, []byte(bomb+"version: 2\ninteractions: *j\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recorder.OpenWire(path); err == nil {
		t.Error("OpenWire unfolded a billion laughs")
	}
}

// Opening a pipe without a writer waited for ever, and a device was read until
// the memory was full.
func TestOpenRefusesWhatIsNoPlainFile(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{dir: syscall.EISDIR, os.DevNull: recorder.ErrNotFile} {
		_, err := recorder.Open(path)
		var file *recorder.FileError
		if !errors.As(err, &file) || !errors.Is(err, want) || file.Hint == "" || recorder.Unusable(err) {
			t.Errorf("Open(%s): %v, want %v with a hint", path, err, want)
		}
	}
}

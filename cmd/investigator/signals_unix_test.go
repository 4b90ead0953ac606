//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"investigator/internal/proxy"
	"investigator/internal/recorder"
)

// background is a program under test that runs beside it, in a session of its
// own.
type background struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out *bufio.Reader
	got string
}

func startBackground(t *testing.T, words ...string) *background {
	t.Helper()
	return startOn(t, nil, &syscall.SysProcAttr{Setsid: true}, words...)
}

// startOn starts a program that has another file open, as number 3.
func startOn(t *testing.T, extra *os.File, attr *syscall.SysProcAttr, words ...string) *background {
	t.Helper()
	// What is caught here starts as it is by default there, under nohup too.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	b := &background{t: t, dir: t.TempDir(), cmd: exec.Command(words[0], words[1:]...)}
	b.cmd.Dir, b.cmd.SysProcAttr, b.cmd.Env = b.dir, attr, append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true")
	for _, name := range awsEnvironment() {
		b.cmd.Env = append(b.cmd.Env, name+"=")
	}
	if extra != nil {
		b.cmd.ExtraFiles = []*os.File{extra}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b.out, b.cmd.Stdout, b.cmd.Stderr = bufio.NewReader(r), w, w
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // it is the program's
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill() // it has ended where the test went well
		_ = r.Close()
	})
	return b
}

// await reads until a line that holds text, which it returns.
func (b *background) await(text string) string {
	b.t.Helper()
	for {
		line, err := b.out.ReadString('\n')
		b.got += line
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			b.t.Fatalf("expected %q, found %q, %v", text, b.got, err)
		}
	}
}

func (b *background) signal(s syscall.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// end returns the exit status and all that was said.
func (b *background) end() (int, string) {
	b.t.Helper()
	for {
		line, err := b.out.ReadString('\n')
		if b.got += line; err != nil {
			break
		}
	}
	_ = b.cmd.Wait() // its status says all
	return b.cmd.ProcessState.ExitCode(), b.got
}

func (b *background) sealed(name string) {
	b.t.Helper()
	c, err := recorder.Open(filepath.Join(b.dir, name))
	if err != nil || !c.Sealed() {
		b.t.Errorf("%s: expected a sealed cassette, error %v", name, err)
	}
}

const (
	hi      = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	patient = `i=0; while [ $i -lt 200 ]; do sleep .1; i=$((i+1)); done; exit 99`
	trapped = `for s in INT TERM HUP QUIT USR1; do trap "echo got $s; n=$((n+1)); exit $((40+n))" $s; n=$((n+1)); done; `
)

// TestSignalsAreTheCommands: a command gets the signal that came, and its run is
// sealed when it ends. A hangup ended exec alone, and the others came as SIGINT.
func TestSignalsAreTheCommands(t *testing.T) {
	for i, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			b := startBackground(t, "investigator", "exec", "--record", "a.yaml", "--upstream", "rule", "--",
				"sh", "-c", `ask 0 '`+hi+`'; `+trapped+`echo ready; `+patient)
			b.await("ready")
			b.signal(s)
			name := []string{"INT", "TERM", "HUP", "QUIT", "USR1"}[i]
			code, said := b.end()
			if code != 40+i || strings.Count(said, "got ") != 1 || !strings.Contains(said, "got "+name) || !strings.Contains(said, "recorded: a.yaml\n1 call\n") {
				t.Errorf("status %d, said %q", code, said)
			}
			b.sealed("a.yaml")
		})
	}
}

// TestCommandThatWillNotEnd is killed, and its run is sealed.
func TestCommandThatWillNotEnd(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(map[bool]string{false: "after a while", true: "at a second Ctrl-C"}[again], func(t *testing.T) {
			t.Parallel()
			b := startBackground(t, "investigator", "exec", "--record", "a.yaml", "--upstream", "rule", "--",
				"sh", "-c", `ask 0 '`+hi+`'; trap "" INT; echo ready; `+patient)
			b.await("ready")
			began := time.Now()
			b.signal(syscall.SIGINT)
			if again {
				time.Sleep(signalEcho + 200*time.Millisecond)
				b.signal(syscall.SIGINT)
			}
			code, said := b.end()
			if took := time.Since(began); code != 137 || (took < commandGrace) != again {
				t.Errorf("status %d after %v, said %q", code, took, said)
			}
			b.sealed("a.yaml")
		})
	}
}

// TestHangupEndsTheProxy as Ctrl-C does, however often it comes, and not under
// nohup. It died with its runs unsealed.
func TestHangupEndsTheProxy(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		t.Run(map[bool]string{false: "hangup", true: "under nohup"}[ignored], func(t *testing.T) {
			t.Parallel()
			words := []string{"investigator", "proxy", "--addr", "127.0.0.1:0", "--record", "runs", "--upstream", "rule", "--json"}
			if ignored {
				words = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, words...)
			}
			b := startBackground(t, words...)
			url := strings.Fields(b.await("listening on "))[2]
			say(t, strings.TrimSuffix(url, ":"))
			b.signal(syscall.SIGHUP)
			time.Sleep(10 * time.Millisecond) // or they count as one
			b.signal(syscall.SIGHUP)
			if ignored {
				say(t, strings.TrimSuffix(url, ":"))
				b.signal(syscall.SIGTERM)
			}
			code, said := b.end()
			var r proxy.Result
			_, result, _ := strings.Cut(said, "\n{")
			err := json.Unmarshal([]byte("{"+result), &r)
			if code != 0 || err != nil || len(r.Recorded) != 1 {
				t.Fatalf("status %d, said %q, %v", code, said, err)
			}
			b.sealed(r.Recorded[0])
		})
	}
}

func say(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Post(url+"/model/m/converse", "application/json", strings.NewReader(hi))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

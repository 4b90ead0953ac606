package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reverseVariable makes this program the reverse proxy that it compares with,
// in front of the URL in it.
const (
	reverseVariable = "INVESTIGATOR_BENCH_REVERSE"
	addressVariable = "INVESTIGATOR_BENCH_ADDRESS" // where it listens; unset: a free port
	appendVariable  = "INVESTIGATOR_BENCH_APPEND"  // a file that it appends all bodies to, durably; unset: none
)

// reverse is httputil.ReverseProxy, which reads the request first: without that
// it loses answers of an upstream that is quick (golang/go#40747). Pieces of an
// answer whose length is not known it flushes at once, as with FlushInterval -1;
// with that it would flush the others too, which takes time. Where it appends to
// a file, it passes an answer on when it is on the disk.
func reverse(ctx context.Context, target, addr, file string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	rp := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 512},
	}
	type body struct{} // the request's, in its context
	if file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		a := &appender{file: f}
		defer a.close()
		rp.ModifyResponse = func(r *http.Response) error { return a.keep(r.Request.Context().Value(body{}).([]byte), r) }
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := make([]byte, max(r.ContentLength, 0))
		if _, err := io.ReadFull(r.Body, text); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		if file != "" {
			r = r.WithContext(context.WithValue(r.Context(), body{}, text))
		}
		rp.ServeHTTP(w, r)
	})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // ends Serve
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// reverseMain is main where the variable is set.
func reverseMain(target string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := reverse(ctx, target, cmp.Or(os.Getenv(addressVariable), "127.0.0.1:0"), os.Getenv(appendVariable)); err != nil {
		fmt.Fprintf(os.Stderr, "bench: reverse proxy: %v\n", err)
		return exitError
	}
	return exitDone
}

// child is a proxy in a process of its own.
type child struct {
	what string
	cmd  *exec.Cmd
	addr string
	out  bytes.Buffer // stdout, to be read when it has ended

	mu    sync.Mutex
	notes []string // the last lines on stderr
	done  chan error
}

// cleanEnvironment is this machine's without what would change how a proxy
// works: AWS keys, and proxies before the proxy.
func cleanEnvironment(more ...string) []string {
	var out []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		if !strings.HasPrefix(name, "AWS_") && !strings.HasSuffix(name, "_PROXY") {
			out = append(out, v)
		}
	}
	return append(append(out, "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true"), more...)
}

// startChild starts a proxy and waits until it listens. addr is where it will;
// "" if it says so itself.
func startChild(ctx context.Context, what, addr string, cmd *exec.Cmd) (*child, error) {
	c := &child{what: what, cmd: cmd, addr: addr, done: make(chan error, 1)}
	cmd.Stdout = &c.out
	notes, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", what, err)
	}
	said := make(chan string, 1)
	go func() {
		c.read(notes, said)
		c.done <- cmd.Wait()
	}()
	if addr == "" {
		c.addr, err = c.told(ctx, said)
	} else {
		err = c.answers(ctx)
	}
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended by itself
		return nil, fmt.Errorf("start %s: %w", what, errors.Join(err, c.complaint()))
	}
	return c, nil
}

// read keeps the last lines that a child said and finds its address in them.
func (c *child) read(notes io.Reader, said chan<- string) {
	listening := regexp.MustCompile(`listening on http://([0-9.:]+[0-9])`)
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		c.mu.Lock()
		c.notes = append(c.notes[max(0, len(c.notes)-9):], lines.Text())
		c.mu.Unlock()
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case said <- m[1]:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, notes) // behind a line too long to be read
}

func (c *child) told(ctx context.Context, said <-chan string) (string, error) {
	select {
	case addr := <-said:
		return addr, nil
	case err := <-c.done:
		c.done <- err
		return "", fmt.Errorf("it ended before it listened: %w", notZero(err))
	case <-time.After(10 * patience): // it may have much to read
		return "", errors.New("it did not say where it listens")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func notZero(err error) error {
	if err == nil {
		return errors.New("with status 0")
	}
	return err
}

// answers waits until something listens at the child's address.
func (c *child) answers(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ctx.Err() == nil; {
		conn, err := net.Dial("tcp", c.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-c.done:
			c.done <- err
			return fmt.Errorf("it ended before it listened: %w", notZero(err))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen: %w", err)
		}
	}
	return ctx.Err()
}

func (c *child) complaint() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notes) == 0 {
		return nil
	}
	return errors.New("it said: " + strings.Join(c.notes, " / "))
}

// end interrupts the child and returns how long it took to end. The error says
// that it ended with another status than 0.
func (c *child) end() (time.Duration, error) {
	began := time.Now()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		return 0, fmt.Errorf("end %s: %w", c.what, errors.Join(err, c.complaint()))
	}
	select {
	case err := <-c.done:
		if err != nil {
			err = fmt.Errorf("%s ended: %w", c.what, errors.Join(err, c.complaint()))
		}
		return time.Since(began), err
	case <-time.After(10 * patience):
		return 0, fmt.Errorf("%s did not end: %w", c.what, errors.Join(c.cmd.Process.Kill(), c.complaint()))
	}
}

// peak is the most memory that the child's process had resident so far. (What
// wait4 says of it is not less than what this program had when it started it.)
func (c *child) peak() (quantity, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return quantity{}, errors.New("this system has no /proc to read the peak of resident memory from")
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kB, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return weighs(kB << 10), err
		}
	}
	return quantity{}, errors.New("/proc does not say the peak of resident memory")
}

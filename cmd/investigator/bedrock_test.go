package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/bedrock/bedrocktest/rulescript"
)

// localBedrock is the server of one script. Commands find it by its key.
type localBedrock struct {
	server *bedrocktest.Server
	asked  chan struct{} // one item for each request that the model answers
	run    *exec.Cmd     // what interrupt interrupted
}

type localBedrockKey struct{}

func bedrockOf(ts *testscript.TestScript) *localBedrock {
	return ts.Value(localBedrockKey{}).(*localBedrock)
}

// bedrockCommand starts a local Bedrock with the rule model in it, in the place
// of the one before, and points the AWS environment at it:
//
//	bedrock [-thinking] [FAULT[*TIMES][/TURN]]...
//
// TURN limits a fault to the model turn of that number, from 0.
func bedrockCommand(ts *testscript.TestScript, neg bool, args []string) {
	b := bedrockOf(ts)
	b.close()
	thinking := len(args) > 0 && args[0] == "-thinking"
	if thinking {
		args = args[1:]
	}
	said := rulescript.Script(thinking)
	b.asked = make(chan struct{}, 1000)
	o := bedrocktest.Options{RequireAuth: true, SlowFirstByte: time.Hour, Script: func(r bedrocktest.Request) bedrocktest.Turn {
		b.asked <- struct{}{}
		return said(r)
	}}
	for _, arg := range args {
		f, err := fault(arg)
		ts.Check(err)
		o.Faults = append(o.Faults, f)
	}
	var err error
	b.server, err = bedrocktest.Start(o)
	ts.Check(err)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": b.server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example",
	} {
		ts.Setenv(name, value)
	}
}

func fault(arg string) (f bedrocktest.Fault, err error) {
	arg, turn, limited := strings.Cut(arg, "/")
	name, times, counted := strings.Cut(arg, "*")
	if f, err = bedrocktest.ParseFault(name); err != nil {
		return f, err
	}
	if counted {
		if f.Times, err = strconv.Atoi(times); err != nil {
			return f, err
		}
	}
	if limited {
		n, err := strconv.Atoi(turn)
		f.When = func(r bedrocktest.Request) bool { return r.Turn == n }
		return f, err
	}
	return f, nil
}

func (b *localBedrock) close() {
	if b.server != nil {
		b.server.Close()
		b.server = nil
	}
}

// noBedrockCommand ends the server and takes the AWS environment away.
func noBedrockCommand(ts *testscript.TestScript, neg bool, args []string) {
	bedrockOf(ts).close()
	for _, name := range awsEnvironment() {
		ts.Setenv(name, "")
	}
}

// interruptCommand sends what Ctrl-C sends to the program in the background,
// once the model was asked N times: interrupt N. Its exit status is held by
// exited after the script has waited for it.
func interruptCommand(ts *testscript.TestScript, neg bool, args []string) {
	b := bedrockOf(ts)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for range n {
		<-b.asked
	}
	b.run = ts.BackgroundCmds()[0]
	ts.Check(b.run.Process.Signal(os.Interrupt))
}

func exitedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if got := strconv.Itoa(bedrockOf(ts).run.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("expected status %s, found %s", args[0], got)
	}
}

// requestsCommand holds how many requests the local Bedrock got: requests N.
func requestsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if got := strconv.Itoa(len(bedrockOf(ts).server.Requests())); got != args[0] {
		ts.Fatalf("expected %s requests, found %s", args[0], got)
	}
}

// awsEnvironment lists what the scripts must not inherit.
func awsEnvironment() []string {
	return []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"AWS_BEARER_TOKEN_BEDROCK", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_CA_BUNDLE", "HTTPS_PROXY", "HTTP_PROXY", "INVESTIGATOR_MODEL"}
}

func TestFaultOfAnArgument(t *testing.T) {
	f, err := fault("throttle*2/1")
	if err != nil || f.Name != "throttle" || f.Times != 2 || f.When(bedrocktest.Request{Turn: 0}) || !f.When(bedrocktest.Request{Turn: 1}) {
		t.Errorf("%+v, error %v", f, err)
	}
	if _, err := fault("thunder"); err == nil {
		t.Error("an unknown fault was taken")
	}
}

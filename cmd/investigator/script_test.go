package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts call the command as a program of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"investigator": func() { os.Exit(program()) },
		"ask":          func() { os.Exit(ask(os.Args[1], os.Args[2:])) },
	})
}

// ask is an agent that sends bodies to its endpoint, whatever is answered, and
// ends with a status.
func ask(status string, bodies []string) int {
	for _, body := range bodies {
		resp, err := http.Post(os.Getenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME")+"/model/m/converse", "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 99
		}
		_, _ = io.Copy(io.Discard, resp.Body) // only that it was asked matters
		_ = resp.Body.Close()
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		return 98
	}
	return code
}

// TestScripts runs testdata/*.txtar. Each script's comment says which behaviour
// it holds. $REPO is the top of the repository, for cassettes and worlds.
func TestScripts(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, name := range awsEnvironment() {
				e.Setenv(name, "")
			}
			b := &localBedrock{}
			e.Values[localBedrockKey{}] = b
			e.Defer(b.close)
			e.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			e.Setenv("REPO", repo)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": statusCommand, "bedrock": bedrockCommand, "nobedrock": noBedrockCommand, "requests": requestsCommand,
			"interrupt": interruptCommand, "exited": exitedCommand,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// statusCommand runs a command and holds its exit status: status N CMD ARGS...
func statusCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command args...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = exitStatus(err)
	}
	if got != args[0] {
		ts.Fatalf("%v: expected status %s, found %s", args[1:], args[0], got)
	}
}

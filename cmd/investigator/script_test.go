package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts call the command as a program of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"investigator": func() {
			os.Exit(run(context.Background(), os.Args, newShell(os.Stdin, os.Stdout, os.Stderr)))
		},
	})
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
			for _, name := range []string{"AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "INVESTIGATOR_MODEL"} {
				e.Setenv(name, "")
			}
			e.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			e.Setenv("REPO", repo)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": statusCommand,
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

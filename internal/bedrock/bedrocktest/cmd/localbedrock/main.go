// Localbedrock runs the local Bedrock of package bedrocktest by itself, so that
// clients of any language can be pointed at it.
//
//	localbedrock --addr 127.0.0.1:8123 --script toolloop --fault throttle@20
//
// It prints its URL on stdout, one line, and serves until interrupted or until
// its standard input ends when --until-eof is given.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/bedrock/bedrocktest/rulescript"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "localbedrock:", err)
		os.Exit(2)
	}
}

type settings struct {
	options  bedrocktest.Options
	caFile   string
	untilEOF bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var script string
	var faults []bedrocktest.Fault
	f := flag.NewFlagSet("localbedrock", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.options.Addr, "addr", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	f.StringVar(&script, "script", "toolloop", "what the model says: "+strings.Join(append(bedrocktest.ScriptNames(), "rule", "rule-thinking"), ", "))
	f.Uint64Var(&s.options.Seed, "seed", 0, "seed of padding, request ids and the choice of faults")
	f.BoolVar(&s.options.RequireAuth, "require-auth", false, "refuse requests without credentials")
	f.StringVar(&s.caFile, "tls-ca", "", "serve HTTPS and write the authority's certificate to this `file`")
	f.BoolVar(&s.untilEOF, "until-eof", false, "end when standard input ends")
	f.Func("fault", "`name@n`: inject into one request in n (repeatable); names: "+strings.Join(bedrocktest.FaultNames(), ", "), func(v string) error {
		fault, err := bedrocktest.ParseFault(v)
		faults = append(faults, fault)
		return err
	})
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("parse arguments: %q is not a flag", f.Arg(0))
	}
	var err error
	s.options.Script, err = lookup(script)
	s.options.Faults, s.options.TLS = faults, s.caFile != ""
	return s, err
}

// lookup finds a script by name: those of bedrocktest, and the rule model.
func lookup(name string) (bedrocktest.Script, error) {
	switch name {
	case "rule":
		return rulescript.Script(false), nil
	case "rule-thinking":
		return rulescript.Script(true), nil
	}
	return bedrocktest.LookupScript(name)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	server, err := bedrocktest.Start(s.options)
	if err != nil {
		return err
	}
	defer server.Close()
	if s.caFile != "" {
		if err := os.WriteFile(s.caFile, server.CA, 0o644); err != nil {
			return fmt.Errorf("write authority: %w", err)
		}
	}
	if _, err := fmt.Fprintln(stdout, server.URL); err != nil {
		return fmt.Errorf("print url: %w", err)
	}
	if s.untilEOF {
		_, err := io.Copy(io.Discard, stdin)
		return err
	}
	<-ctx.Done()
	return nil
}

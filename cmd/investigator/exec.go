package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"investigator/internal/proxy"
)

func execVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run a command behind the proxy",
		UsageText: "investigator exec --record cassettes/agent.yaml -- python agent.py",
		ArgsUsage: "-- COMMAND [ARGUMENT...]",
		Description: `Starts the proxy on a free port, sets the variables by which Bedrock clients
find their endpoint, and runs the command. The command's streams are its own;
what the proxy has to say goes to standard error.

A command that fails passes its exit status on: 128 and the number of a signal
that ended it. After one that succeeds the status is 3 if the proxy found a
divergence or recorded calls were left over, else 1 if something could not be
recorded or a fork was never reached, else 0.

Signals are passed on. A command that has not ended 5 seconds after an
interrupt, a hangup or SIGTERM is killed; a second Ctrl-C kills it at once.

Where the command has no AWS credentials it gets dummy ones: the proxy signs
with its own.`,
		Flags: append(proxyFlags(), patchFlags()...),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef(c.Command.UsageText, "expected a COMMAND, found none")
			}
			o, err := proxyOptionsOf(c)
			if err != nil {
				return err
			}
			return execute(c.Context, sh, o, c.Args().Slice())
		},
	}
}

func execute(ctx context.Context, sh *shell, o proxyOptions, command []string) error {
	p, err := newProxy(ctx, sh, o)
	if err != nil {
		return err
	}
	l, err := proxy.Listen("127.0.0.1:0", false)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(serving, l, p) }()
	code, runErr := runCommand(ctx, sh, command, childEnv(os.Environ(), "http://"+l.Addr().String()))
	stop()
	serveErr := <-served
	result, err := p.Close()
	if runErr != nil && code == exitDone {
		return runErr // nothing ran, so there is no result
	}
	if o.json {
		err = errors.Join(err, printJSON(sh.err, result))
	} else {
		printProxied(sh.notes(), o, result)
	}
	return proxyEnd(code, result, errors.Join(runErr, serveErr, err))
}

// childEnv points every client that is known at the proxy.
func childEnv(env []string, url string) []string {
	set := map[string]string{
		"AWS_ENDPOINT_URL_BEDROCK_RUNTIME":  url,
		"ANTHROPIC_BEDROCK_BASE_URL":        url,
		"ANTHROPIC_BEDROCK_MANTLE_BASE_URL": url + "/anthropic",
		"OPENAI_BASE_URL":                   url + "/openai/v1",
	}
	// A bearer key overrides other credentials, and is not sent over http; with the
	// other one the endpoint above means nothing.
	drop := []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}
	has := func(name string) bool {
		return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") && len(v) > len(name)+1 })
	}
	if !has("AWS_ACCESS_KEY_ID") && !has("AWS_PROFILE") {
		set["AWS_ACCESS_KEY_ID"], set["AWS_SECRET_ACCESS_KEY"] = "investigator", "investigator"
		drop = append(drop, "AWS_SESSION_TOKEN")
	}
	for name, value := range map[string]string{"AWS_REGION": "us-east-1", "OPENAI_API_KEY": "investigator"} {
		if !has(name) && !(name == "AWS_REGION" && (has("AWS_DEFAULT_REGION") || has("AWS_PROFILE"))) {
			set[name] = value
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		set[name] = "127.0.0.1,localhost"
		for _, v := range env {
			if old, found := strings.CutPrefix(v, name+"="); found && old != "" {
				set[name] += "," + old
			}
		}
	}
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, replaced := set[name]
		return replaced || slices.Contains(drop, name)
	})
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}

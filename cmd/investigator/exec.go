package main

import (
	"cmp"
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

Where the command finds no AWS credentials it gets dummy ones: the proxy signs
with its own. Where it finds no region it gets --region, or us-east-1.`,
		Flags: append(proxyFlags(), patchFlags()...),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef(c.Command.UsageText, "expected a COMMAND, found none")
			}
			o, err := proxyOptionsOf(c)
			if err != nil {
				return err
			}
			o.command = c.Args().Slice()
			return execute(c.Context, sh, o)
		},
	}
}

func execute(ctx context.Context, sh *shell, o proxyOptions) error {
	p, err := newProxy(ctx, sh, o)
	if err != nil {
		return err
	}
	l, err := proxy.Listen("127.0.0.1:0", false)
	if err != nil {
		return err
	}
	p.warn(sh.notes())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(serving, l, p) }()
	own := proxy.FindAgentConfig(ctx)
	own.Credentials = own.Credentials || p.shared
	code, runErr := runCommand(ctx, sh, o.command, childEnv(os.Environ(), "http://"+l.Addr().String(), own, o.region))
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

// childEnv points every client that is known at the proxy, and gives it what none
// works without where it finds none by itself: dummy keys and a region. Some
// clients read one of the two variables of the region and not the other.
func childEnv(env []string, url string, own proxy.AgentConfig, region string) []string {
	value := func(name string) (last string) {
		for _, v := range env {
			if found, is := strings.CutPrefix(v, name+"="); is {
				last = found
			}
		}
		return last
	}
	region = cmp.Or(own.Region, value("AWS_REGION"), value("AWS_DEFAULT_REGION"), region, "us-east-1")
	set := map[string]string{
		"AWS_ENDPOINT_URL_BEDROCK_RUNTIME":  url,
		"ANTHROPIC_BEDROCK_BASE_URL":        url,
		"ANTHROPIC_BEDROCK_MANTLE_BASE_URL": url + "/anthropic",
		"OPENAI_BASE_URL":                   url + "/openai/v1",
		"AWS_REGION":                        cmp.Or(value("AWS_REGION"), region),
		"AWS_DEFAULT_REGION":                cmp.Or(value("AWS_DEFAULT_REGION"), region),
		"OPENAI_API_KEY":                    cmp.Or(value("OPENAI_API_KEY"), "investigator"),
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		set[name] = strings.TrimSuffix("127.0.0.1,localhost,"+value(name), ",")
	}
	// A bearer key overrides other credentials, and is not sent over http; with the
	// other one the endpoint above means nothing.
	drop := []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}
	if !own.Credentials {
		set["AWS_ACCESS_KEY_ID"], set["AWS_SECRET_ACCESS_KEY"] = "investigator", "investigator"
		drop = append(drop, "AWS_SESSION_TOKEN")
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

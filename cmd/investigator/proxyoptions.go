package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

type proxyOptions struct {
	verb                                               string
	command                                            []string // of exec
	addr, token                                        string
	listen                                             bool
	record, fork, mode, out, upstream, region, profile string
	replay                                             []string
	at                                                 int
	strict, durable, json                              bool
	patch                                              patchOptions
}

func proxyOptionsOf(c *cli.Context) (proxyOptions, error) {
	o := proxyOptions{
		verb: c.Command.Name,
		addr: c.String("addr"), token: c.String("token"), listen: c.Bool("listen"), record: c.String("record"), replay: c.StringSlice("replay"),
		fork: c.String("fork"), at: c.Int("at"), mode: c.String("mode"), out: c.String("out"), upstream: c.String("upstream"),
		region: c.String("region"), profile: c.String("profile"), strict: c.Bool("strict"), durable: c.Bool("durable"), json: c.Bool("json"),
		patch: patchOptionsOf(c),
	}
	if o.mode == "resample" {
		o.mode = "live"
	}
	given := 0
	for _, is := range []bool{o.record != "", len(o.replay) > 0 && o.fork == "", o.fork != ""} {
		if is {
			given++
		}
	}
	show := "investigator show CASSETTE lists the events; then --at SEQ"
	switch {
	case given != 1:
		return o, usagef(c.Command.UsageText, "expected one of --record, --replay and --fork, found %d", given)
	case o.fork != "" && !c.IsSet("at"):
		return o, usagef(show, "--at: expected the event to change, found none")
	case o.fork == "" && (c.IsSet("at") || !o.patch.none()):
		return o, usagef(fmt.Sprintf("investigator %s --fork CASSETTE --at SEQ", o.verb), "--at and patches go with --fork")
	case o.mode != "halt" && o.mode != "live":
		return o, usagef("--mode halt or --mode live", "--mode: expected halt or live, found %q", o.mode)
	case o.listen && o.token == "":
		return o, usagef("--token SECRET", "--listen: expected a --token, because whoever reaches the port spends on your account")
	}
	return o, o.misplaced(c.IsSet)
}

// misplaced refuses a flag that would say nothing beside the others: who gave it
// expects something of it.
func (o proxyOptions) misplaced(isSet func(string) bool) error {
	switch {
	case o.fork == "" && isSet("mode"):
		return usagef(fmt.Sprintf("investigator %s --fork CASSETTE --at SEQ --mode %s", o.verb, o.mode), "--mode goes with --fork")
	case o.record != "" && isSet("out"):
		return usagef("--record FILE.yaml names the file", "--out goes with --fork")
	case o.fork == "" && isSet("out"):
		return usagef("a replay writes nothing", "--out goes with --fork")
	case o.record != "" && o.strict:
		return usagef("leave it out: a recording takes any request", "--strict goes with --replay or --fork")
	case o.record == "" && o.durable:
		return usagef("leave it out", "--durable goes with --record")
	case o.record == "" && o.fork == "" && o.upstream != "":
		return usagef("leave it out: a replay reaches no upstream; --fork CASSETTE --at SEQ --mode live goes on over one", "--upstream goes with --record or --fork")
	}
	return nil
}

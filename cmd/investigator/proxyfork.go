package main

import (
	"strconv"
	"strings"

	"investigator/internal/price"
	"investigator/internal/proxy"
	"investigator/internal/report"
	"investigator/internal/scrub"
)

// printForked says what became of a fork.
func printForked(p *report.Printer, o proxyOptions, f *proxy.Forked) {
	for _, n := range f.Notes {
		p.Line(report.Dim, "note: %s", n)
	}
	if f.PassedOn > 0 {
		p.Line(report.Plain, "passed on: %s not of the forked run, as they came", report.Count(f.PassedOn, "call"))
	}
	if f.Refused > 0 {
		p.Line(report.Yellow, "refused: %s not of the forked run and on no tape", report.Count(f.Refused, "call"))
	}
	if h := f.Halt; h != nil {
		p.Halted(report.HaltView{
			Parent: f.Parent, At: f.At, Type: f.Type, Patch: describePatch(f.Patch), Seq: h.Event, Recorded: h.Recorded, Model: h.Model,
			Tokens: int64(h.Tokens), Cost: o.estimate(h), Changes: h.Changes, Cassette: f.Cassette, Next: o.goOn(),
		})
		return
	}
	if f.Cassette != "" {
		p.Line(report.Plain, "forked: %s at event %d into %s", f.Parent, f.At, f.Cassette)
		p.Line(report.Dim, "compare:  investigator diff %s %s", shellQuote(f.Parent), shellQuote(f.Cassette))
	}
}

// goOn is the command line that goes on where a fork halts.
func (o proxyOptions) goOn() string {
	words := []string{"investigator", o.verb, "--fork", shellQuote(o.fork), "--at", strconv.Itoa(o.at), "--mode live"}
	if o.strict {
		words = append(words, "--strict")
	}
	if o.addr != "" && o.addr != proxyAddr && !o.listen { // which would want a secret
		words = append(words, "--addr", shellQuote(o.addr))
	}
	for _, flag := range []struct{ name, value string }{{"--upstream", o.upstream}, {"--region", o.region}, {"--profile", o.profile}} {
		if flag.value != "" {
			words = append(words, flag.name, shellQuote(flag.value))
		}
	}
	for _, tape := range o.replay {
		words = append(words, "--replay", shellQuote(tape))
	}
	if p := o.patch.words(); p != "" {
		words = append(words, p)
	}
	if len(o.command) > 0 {
		words = append(words, "--")
	}
	for _, word := range o.command {
		clean, _ := scrub.Scrub([]byte(word)) // an agent may be told a key there
		words = append(words, shellQuote(string(clean)))
	}
	return strings.Join(words, " ")
}

// estimate says what the next request would cost, "" if nothing.
func (o proxyOptions) estimate(h *proxy.Halt) string {
	if o.upstream == "rule" {
		return ""
	}
	t, err := price.Builtin()
	if err != nil {
		return err.Error()
	}
	p, known := t.Lookup(h.Model, "")
	if !known {
		return unknownCost
	}
	return inputCost(&p, int64(h.Tokens))
}

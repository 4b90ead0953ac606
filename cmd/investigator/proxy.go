package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"investigator/internal/bedrock"
	"investigator/internal/faults"
	"investigator/internal/foreign"
	"investigator/internal/proxy"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

// proxyAddr is where the proxy listens unless it is told otherwise.
const proxyAddr = "127.0.0.1:8779"

func proxyVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "proxy",
		Usage:     "record, replay or fork the runs of any Bedrock client",
		UsageText: "investigator proxy --record cassettes/",
		Description: `Stands between an agent and Bedrock. The agent sets one variable,

    AWS_ENDPOINT_URL_BEDROCK_RUNTIME=http://127.0.0.1:8779

and changes nothing else. --record forwards its calls, signed anew, and writes
each run into a cassette. --replay answers from cassettes and reaches no
network; a request that is not the recorded one gets HTTP 409 and is named.
--fork replays up to --at, applies the patch, and halts or goes on live. Ends
when interrupted, and then says what it saw. docs/proxy.md has a block to copy
for every client.`,
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "addr", Value: proxyAddr, Usage: "loopback `HOST:PORT` to listen on; port 0 takes a free one"},
			&cli.BoolFlag{Name: "listen", Usage: "allow --addr to be reachable from elsewhere; needs --token"},
			&cli.StringFlag{Name: "token", EnvVars: []string{"INVESTIGATOR_PROXY_TOKEN"}, Usage: "clients have to send `TOKEN` (as bearer key, or as AWS_ACCESS_KEY_ID)"},
		}, proxyFlags()...), patchFlags()...),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("investigator exec --record FILE -- COMMAND runs a command", "expected no argument, found %q", c.Args().First())
			}
			o, err := proxyOptionsOf(c)
			if err != nil {
				return err
			}
			return runProxy(c.Context, sh, o)
		},
	}
}

// proxyFlags are those that exec shares.
func proxyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "record", Usage: "write each run into a new file in a `FOLDER`, or the one run into a FILE.yaml"},
		&cli.StringSliceFlag{Name: "replay", Usage: "answer from this `CASSETTE`, or all in a folder; may be repeated; with --fork: what is not of the forked run"},
		&cli.StringFlag{Name: "fork", Usage: "replay this `CASSETTE` up to --at and patch that event"},
		&cli.IntFlag{Name: "at", Usage: "with --fork: the event to change, by its `SEQ`"},
		&cli.StringFlag{Name: "mode", Value: "halt", Usage: "with --fork: halt, or live"},
		&cli.StringFlag{Name: "out", Usage: "with --fork: write the fork into `FILE` (default: a new file in cassettes/)"},
		&cli.StringFlag{Name: "upstream", Usage: "where calls go: a `URL`, or rule for the offline rule model (default: Bedrock in the region)"},
		&cli.StringFlag{Name: "region", Usage: "AWS region (default: the AWS configuration)"},
		&cli.StringFlag{Name: "profile", Usage: "AWS profile"},
		&cli.BoolFlag{Name: "strict", Usage: "with --replay: tolerate no change of a request"},
		&cli.BoolFlag{Name: "durable", Usage: "with --record: hold the end of each answer back until it is on the disk"},
		jsonFlag(),
	}
}

// proxied is a proxy ready to serve.
type proxied struct {
	*proxy.Proxy
	signs  string // who pays, for the first line
	shared bool   // it signs with what its environment holds, where an agent finds it as well
	doing  string
	lacks  string // what to do where the upstream will refuse most calls
	tapes  []*recorder.Cassette
}

func newProxy(ctx context.Context, sh *shell, o proxyOptions) (*proxied, error) {
	p := &proxied{}
	po := proxy.Options{Strict: o.strict, Token: o.token, Tool: "investigator " + version, NewRun: newRunID, Now: sh.now, Notify: sh.tell(o.json)}
	var err error
	switch {
	case o.record != "":
		if err := checkFree(o.record); err != nil && isFile(o.record) {
			return nil, err
		}
		folder, err := recordFolder(o.record)
		if err != nil {
			return nil, err
		}
		po.Record = &proxy.RecordOptions{Create: cassetteMaker(o.record), Durable: o.durable, Spool: folder}
		p.doing = "recording into " + o.record
	case o.fork != "":
		if po.Fork, err = forkPlan(sh, o); err != nil {
			return nil, err
		}
		if po.Replay, err = foreignCassettes(o.replay); err != nil {
			return nil, err
		}
		p.doing = fmt.Sprintf("forking %s at event %d, --mode %s", o.fork, o.at, o.mode)
	default:
		if po.Replay, err = foreignCassettes(o.replay); err != nil {
			return nil, err
		}
		p.doing = "replaying " + strings.Join(o.replay, ", ") + ", offline"
	}
	if o.record != "" || o.fork != "" && o.mode == "live" {
		if po.Upstream, err = upstreamOf(ctx, o); err != nil {
			return nil, err
		}
		p.signs = signs(po.Upstream)
		if b, is := po.Upstream.(*proxy.Bedrock); is {
			p.shared, p.lacks = b.Credentials() && o.profile == "", b.Lacks()
		}
	}
	p.tapes = po.Replay
	if p.Proxy, err = proxy.New(po); errors.Is(err, fs.ErrPermission) {
		err = hint(err, "choose a folder that can be written to")
	}
	return p, err
}

// warn says before anything runs why calls will be refused.
func (p *proxied) warn(notes *report.Printer) {
	if p.lacks != "" {
		notes.Line(report.Yellow, "%s", p.lacks)
	}
	for _, c := range p.tapes {
		if !c.Sealed() {
			notes.Line(report.Yellow, "%s is unfinished, its recording was cut off or goes on: what comes behind its last call diverges", c.Name())
		}
	}
}

// tell prints what happens while it happens.
func (sh *shell) tell(quiet bool) func(proxy.Note) {
	return func(n proxy.Note) {
		if quiet {
			return
		}
		style := report.Dim
		if n.Kind == "diverged" || n.Kind == "refused" || n.Kind == "trouble" {
			style = report.Yellow
		}
		sh.notes().Line(style, "%s: %s", n.Kind, n.Text)
	}
}

func upstreamOf(ctx context.Context, o proxyOptions) (proxy.Upstream, error) {
	if o.upstream == "rule" {
		return proxy.RuleUpstream{}, nil
	}
	b, err := proxy.NewBedrock(ctx, proxy.BedrockOptions{URL: o.upstream, Region: o.region, Profile: o.profile})
	var setup *bedrock.SetupError
	if err == nil || errors.As(err, &setup) { // which has a hint of its own
		return b, err
	}
	if o.upstream != "" {
		return nil, usagef("--upstream takes an https URL, http on this machine, or rule for the offline rule model; without it calls go to Bedrock in the region", "--upstream: %s", err)
	}
	return nil, hint(err, "set AWS_REGION or --region; or try it without an account: --upstream rule")
}

func signs(u proxy.Upstream) string {
	if b, is := u.(*proxy.Bedrock); is {
		return "signing " + b.Signs()
	}
	return "answers come from the rule model"
}

// isFile tells the name of one cassette from that of a folder.
func isFile(target string) bool {
	ext := filepath.Ext(target)
	return ext == ".yaml" || ext == ".yml"
}

// recordFolder makes the folder that cassettes will stand in.
func recordFolder(target string) (string, error) {
	if isFile(target) {
		target = filepath.Dir(target)
	}
	if err := os.MkdirAll(target, 0o777); err != nil {
		return "", hint(fmt.Errorf("make folder for cassettes: %w", err), "--record takes a folder, or the name of one file, which ends in .yaml")
	}
	return target, nil
}

// checkFree refuses the name of a file that exists already.
func checkFree(name string) error {
	if _, err := os.Lstat(name); err != nil {
		return nil // whatever else is the matter with it shows when it is made
	}
	return hint(fmt.Errorf("record into %s: the file exists already", name), "recordings are never overwritten; choose another name, or move the file away")
}

// cassetteMaker makes the files of recorded runs. A FILE takes the first run;
// what other runs the traffic holds goes beside it, numbered. In a folder runs
// are named by what is known of them. A name that is taken is passed over, since
// the calls of a run that gets none were paid for nothing.
func cassetteMaker(target string) func(int, recorder.Header) (*recorder.Writer, error) {
	if isFile(target) {
		next := 1
		return func(_ int, h recorder.Header) (w *recorder.Writer, err error) {
			if w, next, err = createFree(target, next, h); err == nil {
				next++
			}
			return w, err
		}
	}
	return func(_ int, h recorder.Header) (*recorder.Writer, error) {
		stamp := strings.NewReplacer("-", "", ":", "", "T", "-", "Z", "").Replace(h.Started)
		w, _, err := createFree(filepath.Join(target, fmt.Sprintf("%s-%s-%.6s.yaml", runName(h), stamp, h.Run)), 1, h)
		return w, err
	}
}

// createFree makes the cassette NAME, or NAME-N of the first number that is not
// taken, and returns that number.
func createFree(name string, n int, h recorder.Header) (*recorder.Writer, int, error) {
	for ; ; n++ {
		w, err := recorder.Create(numbered(name, n), h)
		if !errors.Is(err, recorder.ErrExists) {
			return w, n, err
		}
	}
}

// numbered is the name of the n-th run beside NAME.yaml.
func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	ext := filepath.Ext(name)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
}

// besideMaker makes the files of what a fork passes on: beside the fork's own,
// with the next free number.
func besideMaker(out, kind string) func(int, recorder.Header) (*recorder.Writer, error) {
	return func(n int, h recorder.Header) (*recorder.Writer, error) {
		if out == "" {
			return create("", kind+"-beside", h)
		}
		w, _, err := createFree(out, n+1, h)
		return w, err
	}
}

// runName is what an agent calls its run, in letters that any file system takes.
func runName(h recorder.Header) string {
	var f recorder.Foreign
	_ = json.Unmarshal(h.Extra[recorder.ForeignMember], &f) // a run without a tag is called agent
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, f.Tag)
	if name == "" {
		return "agent"
	}
	return name[:min(len(name), 40)]
}

// foreignCassettes opens cassettes, and those in folders.
func foreignCassettes(names []string) ([]*recorder.Cassette, error) {
	var out []*recorder.Cassette
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			more, err := foreignIn(name)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
			continue
		}
		c, err := recorder.Open(name)
		if err != nil {
			return nil, err
		}
		if c.Foreign() == nil {
			return nil, usagef("investigator replay "+shellQuote(name), "%s is a run of investigator's own loop", name)
		}
		out = append(out, c)
	}
	return out, nil
}

func foreignIn(folder string) ([]*recorder.Cassette, error) {
	all, err := cassettesIn(folder)
	if err != nil {
		return nil, err
	}
	var out []*recorder.Cassette
	for _, f := range all {
		if f.err != nil {
			return nil, f.err
		}
		if f.cassette.Foreign() != nil && f.cassette.Header().Parent == nil {
			out = append(out, f.cassette)
		}
	}
	if len(out) == 0 {
		return nil, hint(fmt.Errorf("%s holds no run of a foreign agent", folder), "record one: investigator proxy --record %s", shellQuote(folder))
	}
	return out, nil
}

func forkPlan(sh *shell, o proxyOptions) (*proxy.ForkOptions, error) {
	c, err := recorder.Open(o.fork)
	if err != nil {
		return nil, err
	}
	if c.Foreign() == nil {
		return nil, usagef(fmt.Sprintf("investigator fork --at %d %s", o.at, shellQuote(o.fork)), "%s is a run of investigator's own loop", o.fork)
	}
	events, err := c.Events()
	if err != nil {
		return nil, err
	}
	if o.at < 1 || o.at > len(events) {
		return nil, faults.Named(faults.Default).For(o.at).CheckIn(events)
	}
	patch, err := o.patch.build(sh, events[o.at-1])
	if err != nil {
		return nil, err
	}
	if patch = patch.For(o.at); o.patch.none() {
		sh.notes().Line(report.Dim, `no patch given: the fault "missing" drops the last record; other ways: --drop, --set, --replace, --empty, --error, --fault, --edit`)
	}
	if err := patch.CheckIn(events); err != nil {
		return nil, err
	}
	kind := fmt.Sprintf("%s-fork%d", strings.TrimSuffix(filepath.Base(o.fork), filepath.Ext(o.fork)), o.at)
	if err := creatable(o.out, kind); err != nil { // the agent's tools run long before the fork is written
		return nil, err
	}
	return &proxy.ForkOptions{Parent: c, Patch: patch, Live: o.mode == "live", Create: func(h recorder.Header) (*recorder.Writer, error) {
		return create(o.out, kind, h)
	}, Beside: besideMaker(o.out, kind)}, nil
}

func runProxy(ctx context.Context, sh *shell, o proxyOptions) error {
	p, err := newProxy(ctx, sh, o)
	if err != nil {
		return err
	}
	l, err := proxy.Listen(o.addr, o.listen)
	if err != nil {
		return listenProblem(err)
	}
	notes := sh.notes()
	notes.Line(report.Bold, "listening on http://%s: %s", l.Addr(), p.doing)
	if p.signs != "" {
		notes.Line(report.Dim, "%s", p.signs)
	}
	p.warn(notes)
	notes.Line(report.Dim, "export AWS_ENDPOINT_URL_BEDROCK_RUNTIME=http://%s", l.Addr())
	serveErr := proxy.Serve(ctx, l, p)
	result, err := p.Close()
	if o.json {
		err = errors.Join(err, printJSON(sh.out, result))
	} else {
		printProxied(sh.printer(), o, result)
	}
	return proxyEnd(exitDone, result, errors.Join(serveErr, err)) // being interrupted is how a proxy ends
}

func listenProblem(err error) error {
	var addr *net.AddrError
	if errors.As(err, &addr) {
		return usagef("--addr "+proxyAddr+" is the default, and port 0 takes a free one; --listen with --token SECRET opens an address to others", "--addr: %s", err)
	}
	return hint(err, "the port may be taken, by another proxy perhaps; --addr 127.0.0.1:0 takes a free one")
}

// proxyEnd is how a proxy ends whose result was printed, with the status of the
// command that ran behind it and what went wrong.
func proxyEnd(command int, r proxy.Result, err error) error {
	code := command
	switch {
	case command != exitDone:
	case len(r.Diverged) > 0 || len(r.LeftOver) > 0:
		code = exitDiverged
	case err != nil:
		code = exitError
	}
	if err == nil {
		return &silent{code}
	}
	return &ended{err, code}
}

func printProxied(p *report.Printer, o proxyOptions, r proxy.Result) {
	for _, name := range r.Recorded {
		p.Line(report.Plain, "recorded: %s", name)
	}
	for _, c := range foreign.Changes() {
		if n := r.Tolerated[c]; n > 0 {
			p.Line(report.Dim, "tolerated: %s, %d times", c, n)
		}
	}
	for _, d := range r.Diverged {
		p.Line(report.Yellow, "diverged: %s", d.String())
	}
	if n := len(r.LeftOver); n > 0 {
		p.Line(report.Yellow, "left over: %s that nobody asked for; the next is event %d of %s", report.Count(n, "recorded model call"), r.LeftOver[0].Event, r.LeftOver[0].Cassette)
	}
	if f := r.Fork; f != nil {
		printForked(p, o, f)
	}
	if r.Served > 0 && len(r.Diverged)+len(r.LeftOver) == 0 && r.Fork == nil {
		p.Line(report.Green, "identical: %s answered from tape, none left over", report.Count(r.Served, "model call"))
	}
	for _, t := range r.Troubles {
		p.Line(report.Yellow, "trouble: %s", t)
	}
	if a := r.Away; a != nil {
		p.Line(report.Yellow, "turned away: %s, the first: %s", report.Count(a.Count, "request"), a.First)
	}
	if r.Calls == 0 && r.Away == nil {
		p.Line(report.Yellow, "no call came: the agent's client may not read the variable that points it here, or its code names an endpoint; docs/proxy.md has a block for each client")
	}
	p.Line(report.Dim, "%s", report.Count(int(r.Calls), "call"))
}

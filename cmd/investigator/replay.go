package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"investigator/internal/bedrock"
	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/world"
)

func replayVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "run a recorded investigation again and prove it identical",
		UsageText: "investigator replay cassettes/run_a.yaml",
		ArgsUsage: "CASSETTE",
		Description: `Runs the loop again with the model's answers from the cassette and compares
every event and the digest of everything that went out. Tools are executed for
real when the recorded world is at hand and unchanged, and answered from the
cassette otherwise; the result says which. No model is ever called.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Value: "auto", Usage: "auto, run (execute, or fail) or tape"},
			&cli.StringFlag{Name: "world", Usage: "where the recorded world is, if it is not found by its name"},
			&cli.BoolFlag{Name: "current", Usage: "use today's prompt and tool definitions instead of the recorded ones"},
			&cli.BoolFlag{Name: "wire", Usage: "serve the recorded HTTP to the AWS SDK, through go-vcr"},
			&cli.StringFlag{Name: "out", Usage: "record the replay into `FILE`, which must not exist (default: nothing is written)"}, jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			name, err := oneArg(c, "CASSETTE")
			if err != nil {
				return err
			}
			return replay(c.Context, sh, replayOptions{
				file: name, tools: c.String("tools"), world: c.String("world"), out: c.String("out"), current: c.Bool("current"), wire: c.Bool("wire"), json: c.Bool("json"),
			})
		},
	}
}

type replayOptions struct {
	file, tools, world, out string
	current, wire, json     bool
}

func replay(ctx context.Context, sh *shell, o replayOptions) error {
	c, err := recorder.Open(o.file)
	if err != nil {
		return err
	}
	if c.Foreign() != nil && (o.tools == "run" || o.current || o.world != "") {
		return &engine.ForeignRun{Name: c.Name(), Verb: "replay"}
	}
	run := engine.ReplayOptions{}
	tools, why, err := toolsFor(c, o.tools, o.world)
	if err != nil {
		return err
	}
	run.Tools = tools
	if o.current {
		if run.Start, err = currentStart(c, o.world); err != nil {
			return err
		}
	}
	if o.wire {
		if run.Model, err = wiredModel(c); err != nil {
			return err
		}
	}
	if o.out != "" {
		rec, err := recorder.Create(o.out, replayHeader(sh, c, run.Start))
		if err != nil {
			return err
		}
		defer rec.Close()
		run.Sink = rec
	}
	result, err := engine.Replay(ctx, c, run)
	if err != nil {
		return err
	}
	return printReplay(sh, c, result, why, o.json)
}

// wiredModel is the AWS SDK over the cassette's recorded exchanges.
func wiredModel(c *recorder.Cassette) (edge.Edge, error) {
	stream := false
	for i := range c.Len() {
		x, err := c.Interaction(i)
		if err != nil {
			return nil, err
		}
		if x.Kind != edge.Model {
			continue
		}
		if x.Attempts == nil {
			return nil, hint(fmt.Errorf("%s: event %d was not answered over a network", c.Name(), x.First), "replay it without --wire")
		}
		stream = strings.HasSuffix(x.URL, "/converse-stream")
	}
	transport, err := recorder.Serve(c)
	if err != nil {
		return nil, err
	}
	return bedrock.Wired(transport, stream), nil
}

func replayHeader(sh *shell, c *recorder.Cassette, start json.RawMessage) recorder.Header {
	h := c.Header()
	h.Tool, h.Run = "investigator "+version, newRunID()
	h.Started = sh.stamp()
	if start != nil {
		h.Start = start
	}
	return h
}

func printReplay(sh *shell, c *recorder.Cassette, r engine.Replayed, why string, asJSON bool) error {
	code := exitDone
	if !r.Identical {
		code = exitDiverged
	}
	if asJSON {
		if err := printJSON(sh.out, struct {
			Cassette string `json:"cassette"`
			engine.Replayed
			Tools string `json:"tools,omitempty"`
		}{c.Name(), r, why}); err != nil {
			return err
		}
		return status(code)
	}
	sh.printer().Replayed(r, why)
	return status(code)
}

// currentStart is the recorded beginning with today's prompt and tools. How the
// model was asked (inference settings, caching, limits) stays as recorded.
func currentStart(c *recorder.Cassette, dir string) (json.RawMessage, error) {
	var s loop.Start
	if err := json.Unmarshal(c.Start(), &s); err != nil {
		return nil, err
	}
	w, why := findWorld(c, dir)
	if w == nil {
		return nil, hint(errors.New("--current needs the world for its tool definitions: "+why), "name its folder with --world FOLDER")
	}
	built, err := prompt.Request(prompt.Options{Model: s.Model, Tools: toolsOf(w), Cache: cacheOf(s.Cache)})
	if err != nil {
		return nil, err
	}
	if s.Request, err = withMembers(s.Request, built.Request, "system", "toolConfig"); err != nil {
		return nil, err
	}
	s.Prompt, s.Effects = &built.Prompt, effectsOf(w)
	return s.JSON()
}

// cacheOf is the choice that leads to a recorded rule.
func cacheOf(rule converse.CacheRule) prompt.Cache {
	switch rule {
	case converse.CacheTail:
		return prompt.CacheAuto
	case converse.CacheTail1h:
		return prompt.CacheHour
	}
	return prompt.CacheOff
}

// withMembers puts the named members of one request into another.
func withMembers(into, from json.RawMessage, names ...string) (json.RawMessage, error) {
	out, err := converse.Members(into)
	if err != nil {
		return nil, err
	}
	today, err := converse.Members(from)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(out, name)
		if v, found := today[name]; found {
			out[name] = v
		}
	}
	return ledger.CanonValue(out)
}

// toolsFor decides how a cassette's tool calls are answered: executed (an edge)
// or from the tape (nil), and why.
func toolsFor(c *recorder.Cassette, choice, dir string) (edge.Edge, string, error) {
	switch choice {
	case "tape":
		return nil, "as asked", nil
	case "auto", "run":
	default:
		return nil, "", usagef("--tools auto, run or tape", "--tools: expected auto, run or tape, found %q", choice)
	}
	if c.Foreign() != nil {
		return nil, "the events of a foreign agent's run were derived again from its recorded bytes; to run the agent: investigator exec --replay " + shellQuote(c.Name()) + " -- COMMAND", nil
	}
	w, why := findWorld(c, dir)
	if w == nil {
		if choice == "run" || dir != "" {
			return nil, "", hint(errors.New("tools cannot be executed: "+why), "name the world's folder with --world FOLDER, or answer tool calls from the cassette with --tools tape")
		}
		return nil, why, nil
	}
	return guarded(c, w), "", nil
}

// guarded executes tools whose recorded effect is read, and nothing else.
func guarded(c *recorder.Cassette, w *world.World) edge.Edge {
	var s loop.Start
	_ = json.Unmarshal(c.Start(), &s) // loop.New read it already
	return engine.Guard{Edge: engine.Tools{World: w}, Effects: s.Effects}
}

// findWorld looks for the world a cassette was recorded on: where it is told,
// the demo world, or a folder of that name below worlds/ or beside the
// cassettes. A world with other contents is none.
func findWorld(c *recorder.Cassette, dir string) (*world.World, string) {
	recorded := c.Header().World
	if recorded == nil {
		return nil, "the cassette names no world"
	}
	for _, candidate := range worldCandidates(c, dir) {
		w, err := openWorld(candidate)
		if err != nil && dir != "" {
			return nil, err.Error()
		}
		if err != nil {
			continue
		}
		if w.Digest() == recorded.Digest {
			return w, ""
		}
		if dir != "" {
			return nil, fmt.Sprintf("%q is not the world %s that was recorded, or it has changed since", dir, recorded.Name)
		}
		if candidate != demoWorld {
			return nil, "the world " + recorded.Name + " has changed since it was recorded"
		}
	}
	return nil, "the world " + recorded.Name + " is not at hand"
}

func worldCandidates(c *recorder.Cassette, dir string) []string {
	if dir != "" {
		return []string{dir}
	}
	name := filepath.Base(c.Header().World.Name)
	if name == demoWorld {
		return []string{demoWorld}
	}
	beside := filepath.Join(filepath.Dir(c.Name()), "..", "worlds", name)
	var out []string
	for _, d := range []string{filepath.Join("worlds", name), beside} {
		if info, err := os.Stat(d); err == nil && info.IsDir() {
			out = append(out, d)
		}
	}
	return out
}

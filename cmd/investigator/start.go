package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"investigator/internal/converse"
	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/world"
)

func worldFlag() cli.Flag {
	return &cli.StringFlag{Name: "world", Usage: "what the tools look at: demo, or a `FOLDER` of metrics, logs and changes", Value: demoWorld}
}

func outFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Usage: "record into `FILE`, which must not exist (default: a new file in cassettes/)"}
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print the result as JSON"}
}

func limitFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "max-turns", Value: defaultMaxTurns, Usage: "end the run after `N` model turns"},
		&cli.Int64Flag{Name: "max-tokens", Usage: "end the run once `N` tokens were used, in and out"},
		&cli.Float64Flag{Name: "max-cost", Usage: "end the run once it cost `USD`"},
		&cli.DurationFlag{Name: "timeout", Usage: "end the run after `DURATION`"},
	}
}

// checkLimits refuses limits below zero, which would count as none.
func checkLimits(c *cli.Context) error {
	for _, name := range []string{"max-turns", "max-tokens", "max-cost", "timeout", "call-timeout", "max-output"} {
		if text := fmt.Sprint(c.Value(name)); strings.HasPrefix(text, "-") {
			return usagef("leave it out, or give 0, for no limit", "--%s: expected a limit above zero, found %s", name, text)
		}
	}
	return nil
}

func limitsOf(c *cli.Context) loop.Limits {
	return loop.Limits{MaxTurns: c.Int("max-turns"), MaxTokens: c.Int64("max-tokens"), MaxCost: int64(c.Float64("max-cost") * 1e6)}
}

// newStart builds the run.started data of an investigation.
func newStart(w *world.World, task string, ch chair, limits loop.Limits) (json.RawMessage, error) {
	if task == "" {
		task = w.Alert().Task
	}
	if limits.MaxCost > 0 && ch.fallback == "" && ch.priceFor(noCache) == nil {
		return nil, usagef("leave --max-cost out, or give a price file with --prices; the rule model is free", "--max-cost: the model %q is unpriced, so its cost cannot be limited", ch.id)
	}
	built, err := prompt.Request(prompt.Options{Model: ch.id, Tools: toolsOf(w), MaxTokens: ch.maxTokens, Temperature: ch.temperature, Cache: ch.cache})
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	s := loop.Start{
		Task: task, Context: w.Context(), Now: w.Clock().Format(time.RFC3339), Model: ch.id, Request: built.Request,
		Cache: built.Cache, Effects: effectsOf(w), Limits: limits, Price: ch.priceFor(built.Cache), Prompt: &built.Prompt, Fallback: ch.fallback,
	}
	return s.JSON()
}

func toolsOf(w *world.World) []prompt.Tool {
	var out []prompt.Tool
	for _, t := range w.Tools() {
		out = append(out, prompt.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
	}
	return out
}

func effectsOf(w *world.World) map[string]string {
	out := map[string]string{}
	for _, t := range w.Tools() {
		out[t.Name] = t.Effect
	}
	return out
}

func newHeader(sh *shell, w *world.World, start json.RawMessage) recorder.Header {
	return recorder.Header{
		Tool: "investigator " + version, Run: newRunID(), Started: sh.stamp(),
		World: &recorder.World{Name: w.Name(), Digest: w.Digest()}, Start: start,
	}
}

func newRunID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails; crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// cassetteFolder is where recordings go and are looked for.
const cassetteFolder = "cassettes"

// create makes the cassette to record into. Without a name it takes a new one
// in the cassette folder.
func create(out, kind string, h recorder.Header) (*recorder.Writer, error) {
	if out != "" {
		return recorder.Create(out, h)
	}
	if err := os.MkdirAll(cassetteFolder, 0o777); err != nil {
		return nil, hint(fmt.Errorf("make folder for cassettes: %w", err), outHint)
	}
	return recorder.Create(filepath.Join(cassetteFolder, freshName(kind, h.Run)), h)
}

func freshName(kind, run string) string {
	return fmt.Sprintf("%s-%s-%.6s.yaml", kind, time.Now().UTC().Format("20060102-150405"), run)
}

// creatable says why create would fail, before anything runs whose outcome has
// to be kept. It leaves nothing behind.
func creatable(named, kind string) error {
	out := named
	if out == "" {
		out = freshName(kind, newRunID())
		if _, err := os.Lstat(cassetteFolder); !errors.Is(err, fs.ErrNotExist) {
			out = filepath.Join(cassetteFolder, out)
		}
	}
	err := recorder.Creatable(out)
	if err != nil && named == "" {
		return hint(fmt.Errorf("make a file in %s/: %w", cassetteFolder, err), "%s", outHint)
	}
	return err
}

const outHint = "name a file in a folder that can be written to with --out FILE"

func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return writeIndented(w, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, engine.ErrRunTimeout)
}

// noCache is the rule of a request without cache points.
const noCache = converse.CacheNone

// defaultMaxTurns bounds a run that sets no limit of its own.
const defaultMaxTurns = 24

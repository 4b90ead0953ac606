// Package prompt holds what a model is told: the system prompts, as reviewed
// files with versions, and the members of the Converse request that every call
// of a run carries.
//
// Request is the one way in. It puts together the system prompt, the tools with
// report_findings last, the inference settings the model accepts and the cache
// points worth having, and says by which rule the conversation itself is to be
// cached. The result goes into run.started, so a replay uses what was recorded
// and not what this build would say.
//
// A prompt file is never edited once released: a changed text gets the next
// version's number and a new file. A test pins each file's digest.
//
// The rule model is asked by the same shape with a prompt of one line and no
// cache points, since it reads the tools and the conversation alone.
package prompt

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

//go:embed investigator.v1.md
var investigatorV1 string

//go:embed rule.v1.md
var ruleV1 string

// RuleModel is the model id of the rule model.
const RuleModel = "rule"

// Tool is what a model is told about a tool. InputSchema is a JSON Schema, an
// object.
type Tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage
}

// Cache says how prompts are cached.
type Cache string

// The choices. CacheAuto caches for five minutes where the model supports it,
// CacheHour for an hour, CacheOff never.
const (
	CacheAuto Cache = ""
	CacheHour Cache = "1h"
	CacheOff  Cache = "off"
)

// defaultMaxTokens bounds an answer. It holds a verdict with its reasons several
// times over, and every model that calls tools allows it.
const defaultMaxTokens = 4096

// Options is what a request is made of. Only Model is required.
type Options struct {
	Model string // model id, profile id or ARN, or RuleModel
	Tools []Tool
	// System replaces the reviewed prompt; the run then names it "custom".
	System string
	// MaxTokens bounds the output of a turn; zero means 4096.
	MaxTokens int
	// Temperature is a decimal number from 0 to 1; "" leaves it to the model.
	Temperature string
	Cache       Cache
}

// Built is what goes into loop.Start.
type Built struct {
	Request json.RawMessage    // canonical
	Cache   converse.CacheRule // how the messages are cached
	Prompt  loop.Prompt
}

// Request builds the members beside messages. Errors say which option cannot be
// used with the model.
func Request(o Options) (Built, error) {
	b := Built{}
	text := o.system(&b.Prompt)
	if strings.TrimSpace(text) == "" {
		return Built{}, fmt.Errorf("build request: the system prompt is blank")
	}
	tools, err := toolSpecs(o.Tools)
	if err != nil {
		return Built{}, fmt.Errorf("build request: %w", err)
	}
	system := []json.RawMessage{converse.TextBlock(text)}
	if b.Cache, err = o.cacheRule(); err != nil {
		return Built{}, fmt.Errorf("build request: %w", err)
	}
	system, tools = cachePoints(o.Model, b.Cache, system, tools)
	members := map[string]any{"system": system, "toolConfig": map[string]any{"tools": tools}}
	if o.Model != RuleModel {
		if members["inferenceConfig"], err = o.inference(); err != nil {
			return Built{}, fmt.Errorf("build request: %w", err)
		}
	}
	b.Request, err = ledger.CanonValue(members)
	return b, err
}

func (o Options) system(name *loop.Prompt) string {
	switch {
	case o.System != "":
		*name = loop.Prompt{Name: "custom", Version: ledger.Digest([]byte(o.System))[:12]}
		return o.System
	case o.Model == RuleModel:
		*name = loop.Prompt{Name: "rule", Version: "1"}
		return strings.TrimSpace(ruleV1)
	}
	*name = loop.Prompt{Name: "investigator", Version: "1"}
	return strings.TrimSpace(investigatorV1)
}

// toolSpecs returns the tools with report_findings last, so that the tools of
// the world keep their place when its schema changes.
func toolSpecs(tools []Tool) ([]json.RawMessage, error) {
	tools = append(tools[:len(tools):len(tools)], Tool{verdict.Tool, verdict.Description, verdict.Schema()})
	seen := map[string]bool{}
	var specs []json.RawMessage
	for _, t := range tools {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tool %q: there are two of that name", t.Name)
		}
		seen[t.Name] = true
		spec, err := ledger.CanonValue(map[string]any{"toolSpec": map[string]any{
			"name": t.Name, "description": t.Description, "inputSchema": map[string]any{"json": t.InputSchema},
		}})
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// maxToolName is the API's limit.
const maxToolName = 64

func (t Tool) check() error {
	if len(t.Name) == 0 || len(t.Name) > maxToolName || strings.ContainsFunc(t.Name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) {
		return fmt.Errorf("expected a name of 1 to %d letters, digits, _ and -", maxToolName)
	}
	if strings.TrimSpace(t.Description) == "" {
		return fmt.Errorf("expected a description, found none")
	}
	if _, err := converse.Members(t.InputSchema); err != nil {
		return fmt.Errorf("input schema: expected a JSON object: %w", err)
	}
	return nil
}

// inference returns the settings that every model takes, and temperature where
// it is asked for and taken.
func (o Options) inference() (map[string]any, error) {
	tokens := o.MaxTokens
	if tokens == 0 {
		tokens = defaultMaxTokens
	}
	if tokens < 1 {
		return nil, fmt.Errorf("max tokens: expected at least 1, found %d", tokens)
	}
	config := map[string]any{"maxTokens": tokens}
	if o.Temperature == "" {
		return config, nil
	}
	if !unitDecimal(o.Temperature) {
		return nil, fmt.Errorf("temperature: expected a number from 0 to 1, found %q", o.Temperature)
	}
	if !takesTemperature(o.Model) {
		return nil, fmt.Errorf("temperature: %q does not accept it; leave it out", o.Model)
	}
	config["temperature"] = json.Number(o.Temperature)
	return config, nil
}

// unitDecimal reports whether s is a plain decimal from 0 to 1.
func unitDecimal(s string) bool {
	whole, fraction, dotted := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || dotted && fraction == "" || strings.Trim(fraction, "0123456789") != "" {
		return false
	}
	return whole == "0" || strings.Trim(fraction, "0") == ""
}

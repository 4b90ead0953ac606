package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

// Start is the data of run.started: everything a run is a function of, beside
// its returns.
type Start struct {
	Task    string          `json:"task"`              // the question, shown to the model
	Context json.RawMessage `json:"context,omitempty"` // what the model is told with it
	Now     string          `json:"now,omitempty"`     // the time of the investigation, RFC 3339; relative windows resolve against it
	Model   string          `json:"model"`             // model id, profile id or ARN; "rule" for the rule model
	// Request holds the members of the Converse body beside messages: system,
	// toolConfig, inferenceConfig and whatever else is sent on every call.
	Request json.RawMessage    `json:"request"`
	Cache   converse.CacheRule `json:"cache,omitempty"`
	// Effects maps each tool to read, idempotent or write.
	Effects map[string]string `json:"effects,omitempty"`
	Limits  Limits            `json:"limits"`
	Price   *Price            `json:"price,omitempty"`
	Prompt  *Prompt           `json:"prompt,omitempty"`
	// Fallback says why another model than the one asked for is in the chair.
	Fallback string `json:"fallback,omitempty"`
}

// Prompt names the reviewed prompt file whose text stands in Request.
type Prompt struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Limits end a run. Zero means no limit.
type Limits struct {
	MaxTurns  int   `json:"max_turns,omitempty"`
	MaxTokens int64 `json:"max_tokens,omitempty"` // over all turns, in and out, cached included
	MaxCost   int64 `json:"max_cost,omitempty"`   // micro-dollars
}

// Price is what one million tokens cost in micro-dollars, from a dated table.
type Price struct {
	Table      string `json:"table"` // name and date of the table
	Input      int64  `json:"input"`
	Output     int64  `json:"output"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
}

// Cost returns what usage costs, in micro-dollars, rounded up.
func (p Price) Cost(u converse.Usage) int64 {
	sum := u.Input*p.Input + u.Output*p.Output + u.CacheRead*p.CacheRead + u.CacheWrite*p.CacheWrite
	return (sum + 999_999) / 1_000_000
}

// JSON returns the canonical data of run.started.
func (s Start) JSON() (json.RawMessage, error) {
	if len(s.Request) == 0 {
		s.Request = json.RawMessage(`{}`)
	}
	b, err := ledger.CanonValue(s)
	if err != nil {
		return nil, fmt.Errorf("encode run.started: %w", err)
	}
	return b, nil
}

// begin is a Start with what is derived from it once and shared by every State
// of the run.
type begin struct {
	Start
	data     json.RawMessage
	rest     converse.Rest
	reports  bool // the model has a tool to report its verdict with
	question json.RawMessage
}

func parseStart(data json.RawMessage) (*begin, error) {
	canon, err := ledger.Canon(data)
	if err != nil {
		return nil, fmt.Errorf("read run.started: %w", err)
	}
	b := &begin{data: canon}
	if err := json.Unmarshal(canon, &b.Start); err != nil {
		return nil, fmt.Errorf("read run.started: %w", err)
	}
	if strings.TrimSpace(b.Task) == "" {
		return nil, fmt.Errorf("read run.started: /task: expected the question to investigate, found none")
	}
	if b.Model == "" {
		return nil, fmt.Errorf("read run.started: /model: expected a model id, found none")
	}
	if !slices.Contains([]converse.CacheRule{converse.CacheNone, converse.CacheTail, converse.CacheTail1h}, b.Cache) {
		return nil, fmt.Errorf("read run.started: /cache: expected %q, %q or %q, found %q", converse.CacheNone, converse.CacheTail, converse.CacheTail1h, b.Cache)
	}
	if b.rest, err = converse.NewRest(b.Request); err != nil {
		return nil, fmt.Errorf("read run.started: /request: %w", err)
	}
	b.reports = bytes.Contains(b.rest.JSON(), []byte(`"name":"`+verdict.Tool+`"`))
	b.question = b.firstMessage()
	return b, nil
}

// ContextPrefix begins the text block that tells the model about the world.
const ContextPrefix = "Context: "

func (b *begin) firstMessage() json.RawMessage {
	blocks := []json.RawMessage{converse.TextBlock(b.Task)}
	if len(b.Context) > 0 && string(b.Context) != "null" {
		blocks = append(blocks, converse.TextBlock(ContextPrefix+string(b.Context)))
	}
	return converse.Message("user", blocks)
}

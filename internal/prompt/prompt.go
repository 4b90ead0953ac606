// Package prompt builds what the investigator sends on every model call: its
// system prompt, the definitions of its tools, and the inference settings.
//
// Prompts are reviewed files with a version in their names. A run records the
// name, the version and the text it used, and replays with those; changing a
// prompt means adding a file, not editing one.
//
// Request puts them into the members of a Converse body that stand beside the
// messages. The report_findings tool is always the last one.
package prompt

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

//go:embed investigator.v1.md
var investigatorV1 string

// Tool is one tool's definition as a model sees it.
type Tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage
}

// Settings are the choices beside prompt and tools.
type Settings struct {
	MaxTokens   int      // tokens a turn may have, 0 for the default
	Temperature *float64 // nil leaves it to the model
	CachePoints bool     // end tools and system with a cache point
}

// defaultMaxTokens leaves room for reasoning and a verdict in one turn.
const defaultMaxTokens = 8192

// Request returns the Converse members {inferenceConfig, system, toolConfig}
// for the current prompt, and that prompt's name and version.
func Request(tools []Tool, s Settings) (json.RawMessage, *loop.Prompt, error) {
	inference := map[string]any{"maxTokens": s.MaxTokens}
	if s.MaxTokens <= 0 {
		inference["maxTokens"] = defaultMaxTokens
	}
	if s.Temperature != nil {
		inference["temperature"] = *s.Temperature
	}
	system := []any{map[string]string{"text": strings.TrimSpace(investigatorV1)}}
	var specs []any
	for _, t := range append(tools[:len(tools):len(tools)], report()) {
		specs = append(specs, map[string]any{"toolSpec": map[string]any{
			"name": t.Name, "description": t.Description, "inputSchema": map[string]any{"json": t.InputSchema},
		}})
	}
	if s.CachePoints {
		point := map[string]any{"cachePoint": map[string]string{"type": "default"}}
		system, specs = append(system, point), append(specs, point)
	}
	body, err := ledger.CanonValue(map[string]any{
		"inferenceConfig": inference, "system": system, "toolConfig": map[string]any{"tools": specs},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("build request: %w", err)
	}
	return body, &loop.Prompt{Name: "investigator", Version: "v1"}, nil
}

func report() Tool {
	return Tool{Name: verdict.Tool, Description: verdict.Description, InputSchema: verdict.Schema()}
}

package world

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// Tool is what a model is told about a tool. The caller must not change
// InputSchema.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Effect      string          `json:"effect"` // read, idempotent or write; here always read
}

// Result is what a call returned. Body is one JSON object, canonical (sorted
// keys) and never nil; the caller owns it. Status is also in the body.
type Result struct {
	Status string
	Body   json.RawMessage
}

// The statuses of a [Result].
const (
	StatusOK        = "ok"        // all there is
	StatusEmpty     = "empty"     // nothing, and the body says what there was instead
	StatusTruncated = "truncated" // a part, and the body says how many of how many
	StatusError     = "error"     // a call that cannot be answered, and the body says what is allowed
)

// EffectRead is the effect of a tool that changes nothing.
const EffectRead = "read"

// tool is a Tool with what it does.
type tool struct {
	Tool
	doc    schema
	schema func() (*jsonschema.Resolved, error) // of doc
	run    func(args) Result
}

// args are the checked arguments of a call; what was left out is zero.
type args struct {
	service, metric, query string
	window                 window
	limit                  int
}

// Tools lists the tools of this world in a fixed order. list_services is there
// where the world has a call graph.
func (w *World) Tools() []Tool {
	list := make([]Tool, len(w.tools))
	for i, t := range w.tools {
		list[i] = t.Tool
	}
	return list
}

// Call runs one tool. It never fails: what is wrong with the call, or with ctx,
// is a result of status error.
func (w *World) Call(ctx context.Context, name string, input json.RawMessage) Result {
	if err := ctx.Err(); err != nil {
		return fail(clip(name, maxName), problem{Message: "the call was cut short: " + err.Error()})
	}
	i := slices.IndexFunc(w.tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return fail(clip(name, maxName), problem{Message: fmt.Sprintf("there is no tool %q", clip(name, maxName)), Allowed: w.toolNames()})
	}
	a, p := w.check(w.tools[i], input)
	if p != nil {
		return fail(name, *p)
	}
	return w.tools[i].run(a)
}

func (w *World) toolNames() []string {
	names := make([]string, len(w.tools))
	for i, t := range w.tools {
		names[i] = t.Name
	}
	return names
}

// property is one argument in a JSON Schema.
type property struct {
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitempty"`
	Maximum     int      `json:"maximum,omitempty"`
	Minimum     int      `json:"minimum,omitempty"`
	Type        string   `json:"type"`
}

type schema struct {
	Additional bool                `json:"additionalProperties"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
	Type       string              `json:"type"`
}

// newTool makes a tool; its schema is compiled when it is first called.
func newTool(name, description string, props map[string]property, required []string, run func(args) Result) tool {
	doc := schema{Properties: props, Required: required, Type: "object"}
	text := encode(doc)
	return tool{
		Tool:   Tool{Name: name, Description: description, InputSchema: text, Effect: EffectRead},
		doc:    doc,
		schema: sync.OnceValues(func() (*jsonschema.Resolved, error) { return compile(name, text) }),
		run:    run,
	}
}

// compile reads the very text that a model is shown.
func compile(name string, text json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read schema of %s: %w", name, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolve schema of %s: %w", name, err)
	}
	return resolved, nil
}

// buildTools describes the tools to a model. A description says what comes
// back, what empty means, and how a part of it is addressed in a verdict.
func (w *World) buildTools() []tool {
	service := property{Type: "string", Enum: w.meta.Services, Description: "One of the services of this incident."}
	window := property{Type: "string", Description: `Time span to look at: back from now ("24h", "90m", "7d") or "start/end" in RFC 3339, UTC ("` +
		strings.Join(windowExamples(w.meta.clock)[3:], "") + `"). Default 24h. Both ends are included; nothing is newer than now.`}
	optional := service
	optional.Description += " Leave it out to look at all of them."
	tools := []tool{
		newTool("query_metrics", metricsText, map[string]property{
			"service": service, "window": window,
			"metric": {Type: "string", Description: `Name of one metric, such as the alert's signal. Leave it out to see which there are.`},
		}, []string{"service"}, w.queryMetrics),
		newTool("list_deploys", deploysText, map[string]property{"service": optional, "window": window}, nil, w.listDeploys),
		newTool("search_logs", logsText+w.zoneText(), map[string]property{
			"service": optional, "window": window,
			"query": {Type: "string", Description: `Text to look for, upper and lower case alike, as it stands in the message; | separates alternatives ("timeout | refused"). Not a pattern. A level ("error") or a trace id alone finds the lines that have it.`},
			"limit": {Type: "integer", Minimum: 1, Maximum: maxLines, Description: fmt.Sprintf("Most lines to return, 1 to %d. Default %d.", maxLines, defaultLines)},
		}, []string{"query"}, w.searchLogs),
	}
	if len(w.meta.Graph) > 0 {
		tools = append(tools, newTool("list_services", servicesText, map[string]property{}, nil, w.listServices))
	}
	return tools
}

const (
	metricsText = `Measurements of one service over time. With "metric": every sample of it in the window, oldest first, as {"t","v"} with the numbers as they were recorded. ` +
		`Without "metric": every sample of every metric of the service where those are few; otherwise one summary per metric (samples, first, last, min and max with their times, and "change": the time from which the values lie on another level, with the median before and after), after which you can ask for the metrics that moved. ` +
		`Status "empty" means that there is no such sample, not that the value is zero; "available" then says which metrics exist and from when to when. ` +
		`Compare the time before the alert with the time after it, and a service with what it calls. Address a part as /metrics/0/points/17 (or /metrics/3/change in a summary).`
	deploysText = `Changes recorded in the window, oldest first: deploys, configuration, flags, rollbacks and infrastructure, each with time, service, kind, id and summary. ` +
		`A change close before the symptom is a suspect, not a proof: check that the service it touched misbehaves, and from when. Changes made outside the recorded ways are not in here. ` +
		`Status "empty" means that no change of that service was recorded in the window; "nearest" then holds the ones just outside of it, and "other_services" counts the changes of others. Address a record as /deploys/0.`
	logsText = `Log lines whose message contains the query, oldest first, each with time, service, message and, where known, level, pod and trace_id. ` +
		`If more lines match than "limit", the oldest ones are returned with status "truncated", and "matched_by_service" says how many matched in each service, with the first and the last time: narrow the window or the query to see the others. ` +
		`Status "empty" means that no line matched: look at "available" to see which logs exist and for which times before concluding that nothing was logged. Long messages are cut and say so. Address a line as /lines/0.`
	servicesText = `The services of this incident, whom each calls ("calls"), who calls it ("called_by"), and which kinds of data exist for it ("has"). ` +
		`Use it to walk from the service that shows the symptom down to the one that causes it. Address a record as /services/0.`
)

func (w *World) zoneText() string {
	if w.meta.LogZone == "" {
		return ""
	}
	return " Times inside the text of messages are in " + w.meta.LogZone + `; the field "time" is UTC.`
}

// result encodes a body that says its status itself.
func result(status string, body any) Result {
	return Result{Status: status, Body: canonical(body)}
}

// problem is what was wrong with a call.
type problem struct {
	Allowed []string `json:"allowed,omitempty"`
	Field   string   `json:"field,omitempty"` // JSON pointer into the input
	Message string   `json:"message"`
}

func fail(tool string, p problem) Result {
	return result(StatusError, struct {
		Error  problem `json:"error"`
		Status string  `json:"status"`
		Tool   string  `json:"tool"`
	}{p, StatusError, tool})
}

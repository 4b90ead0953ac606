package rule

import (
	"bytes"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// talk is what a conversation says, read once per turn.
type talk struct {
	turn     int // the one to answer, from 1
	task     string
	about    alert
	now      moment
	services []string // of the context, or of a tool's schema
	tools    []tool
	steps    []step
	bytes    int  // of the whole request
	reported bool // report_findings was called before and did not end the run
}

// alert is the signal that the investigation starts from.
type alert struct {
	service, signal string
	started         moment
	startedText     string
	value           float64
	threshold       float64
	bounded         bool // value and threshold are both known
}

// rising reports whether large values are the bad ones.
func (a alert) rising() bool { return a.value >= a.threshold }

// tool is one that the request offers.
type tool struct {
	name   string
	schema node
}

// step is one call made earlier and its result.
type step struct {
	id, tool string
	input    node
	answered bool
	failed   bool
	gone     bool // removed from the conversation to fit the model's window
	address  string
	body     node   // the result as JSON
	spoken   bool   // body was found inside a text, so no pointer leads into it
	text     string // the result's text where it is not JSON
}

func readTalk(req converse.Request) *talk {
	messages := req.Messages.Messages()
	rest := req.Rest.JSON()
	t := &talk{turn: 1, bytes: len(rest)}
	t.steps = make([]step, 0, len(messages)/2) // one of each turn, as a rule
	begin := 0                                 // where the steps of the last assistant message begin
	for i, raw := range messages {
		t.bytes += len(raw)
		content := readNode(raw).get("content")
		if bytes.HasSuffix(raw, []byte(`"role":"assistant"}`)) {
			t.turn++
			begin = len(t.steps)
			t.readCalls(content)
			continue
		}
		if i == 0 {
			t.readQuestion(content)
		}
		t.readResults(content, t.steps[begin:])
	}
	t.readTools(readNode(rest).path("toolConfig", "tools"))
	return t
}

func (t *talk) readQuestion(content node) {
	for _, block := range content.items() {
		text := block.get("text").decoded()
		if context, found := bytes.CutPrefix(text, []byte(loop.ContextPrefix)); found {
			if n := parseNode(context); n.is('{') {
				t.readContext(n)
				continue
			}
		}
		if t.task == "" {
			t.task = string(text)
		}
	}
}

func (t *talk) readContext(n node) {
	t.services = n.get("services").strings()
	t.now = parseMoment(n.get("now").text())
	a := n.get("alert")
	t.about = alert{service: a.get("service").text(), signal: a.get("signal").text(), startedText: a.get("started_at").text()}
	t.about.started = parseMoment(t.about.startedText)
	value, ok1 := parseNumber(a.get("value"))
	threshold, ok2 := parseNumber(a.get("threshold"))
	t.about.value, t.about.threshold, t.about.bounded = value, threshold, ok1 && ok2
}

func (t *talk) readCalls(content node) {
	for _, block := range content.items() {
		use := block.get("toolUse")
		if !use.there() {
			continue
		}
		s := step{id: use.get("toolUseId").text(), tool: use.get("name").text(), input: use.get("input")}
		t.reported = t.reported || s.tool == verdict.Tool
		t.steps = append(t.steps, s)
	}
}

// readResults gives each result to its call: by id, which is unique within a
// turn.
func (t *talk) readResults(content node, open []step) {
	for _, block := range content.items() {
		result := block.get("toolResult")
		id := result.get("toolUseId").text()
		for i := range open {
			if result.there() && !open[i].answered && open[i].id == id {
				open[i].take(result)
				break
			}
		}
	}
}

func (s *step) take(result node) {
	s.answered = true
	s.failed = result.get("status").says("error")
	for _, block := range result.get("content").items() {
		if body := block.get("json"); body.there() {
			s.body = body
			continue
		}
		s.takeText(block.get("text").text())
	}
	if !s.body.there() && (strings.HasPrefix(s.text, "{") || strings.HasPrefix(s.text, "[")) {
		s.body, s.spoken = parseNode([]byte(s.text)), true
	}
}

func (s *step) takeText(text string) {
	switch address, found := strings.CutPrefix(text, "evidence "); {
	case found && s.address == "" && isAddress(address):
		s.address = address
	case strings.HasPrefix(text, "[removed to fit the context"):
		s.gone = true
	case s.text == "":
		s.text = text
	}
}

func isAddress(s string) bool {
	if len(s) < 2 || len(s) > 10 || s[0] != 'E' || s[1] == '0' {
		return false
	}
	_, ok := digits(s[1:])
	return ok
}

func (t *talk) readTools(list node) {
	for _, n := range list.items() {
		spec := n.get("toolSpec")
		if name := spec.get("name").text(); name != "" {
			t.tools = append(t.tools, tool{name, spec.path("inputSchema", "json")})
		}
	}
	if len(t.services) > 0 {
		return
	}
	if found := t.tool(toolMetrics); found != nil {
		t.services = found.schema.path("properties", "service", "enum").strings()
	}
}

// tool returns a tool that the request offers, nil if it does not.
func (t *talk) tool(name string) *tool {
	for i := range t.tools {
		if t.tools[i].name == name {
			return &t.tools[i]
		}
	}
	return nil
}

// subject is the service to begin with: the alert's, unless the task names
// another one and not that one.
func (t *talk) subject() string {
	named := mentioned(t.task, t.services)
	switch {
	case t.about.service == "":
		return named
	case named != "" && !mentions(strings.ToLower(t.task), strings.ToLower(t.about.service)):
		return named
	}
	return t.about.service
}

// mentioned returns the longest of the names that occurs in text as a word.
func mentioned(text string, names []string) string {
	return mentionedIn(strings.ToLower(text), lowered(names), names)
}

// lowered returns names in lower case.
func lowered(names []string) []string {
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	return lower
}

// mentionedIn is mentioned for a text and names in lower case.
func mentionedIn(text string, lower, names []string) string {
	best := ""
	for i, name := range names {
		if len(name) > len(best) && mentions(text, lower[i]) {
			best = name
		}
	}
	return best
}

// mentions reports whether name occurs in text with no letter, digit or dash
// beside it. Both are in lower case.
func mentions(text, name string) bool {
	for from := 0; name != ""; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		start := from + at
		end := start + len(name)
		if (start == 0 || !wordByte(text[start-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		from = start + 1
	}
	return false
}

func wordByte(b byte) bool {
	return b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || b >= 0x80
}

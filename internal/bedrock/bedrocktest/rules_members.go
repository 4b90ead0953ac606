package bedrocktest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// violations collects what breaks the constraints of the service's model. The
// service reports all of them at once and counts indices from 1.
type violations struct{ found []string }

func (v *violations) add(at, shown, constraint string) {
	v.found = append(v.found, fmt.Sprintf("Value %sat '%s' failed to satisfy constraint: Member must %s", shown, at, constraint))
}

// name checks a string of 1–64 characters. Values inside messages are not
// quoted by the service, values inside toolConfig are (litellm#19384 beside
// openclaw#12892); the order of the three lines is that of those reports.
func (v *violations) name(at, value string, extra string, quote bool) {
	shown := ""
	if quote {
		shown = "'" + value + "' "
	}
	if len(value) > 64 {
		v.add(at, shown, "have length less than or equal to 64")
	}
	if value == "" || !only(value, extra) {
		v.add(at, shown, "satisfy regular expression pattern: [a-zA-Z0-9"+extra+"]+")
	}
	if value == "" {
		v.add(at, shown, "have length greater than or equal to 1")
	}
}

// What names and ids may hold beside letters and digits, as the patterns of the
// service model spell it.
const (
	nameExtra = "_-"
	idExtra   = "_.:-"
)

// only says whether s holds letters, digits and bytes of extra alone.
func only(s, extra string) bool {
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

// Rules 11 and 12, and the neighbouring constraints of the service model.
func checkConstraints(c *conversation) *APIError {
	var v violations
	v.inference(mapAt(c.root, "inferenceConfig"))
	v.tools(c.root)
	for _, m := range c.messages {
		for _, b := range m.blocks {
			at := fmt.Sprintf("messages.%d.member.content.%d.member.%s.", m.index+1, b.index+1, b.kind)
			if b.kind == "toolUse" {
				v.name(at+"name", textAt(b.body, "name"), nameExtra, false)
			}
			if b.kind == "toolUse" || b.kind == "toolResult" {
				v.name(at+"toolUseId", textAt(b.body, "toolUseId"), idExtra, false)
			}
		}
	}
	return v.error()
}

func (v *violations) error() *APIError {
	switch n := len(v.found); n {
	case 0:
		return nil
	case 1:
		return invalid("1 validation error detected: %s", v.found[0])
	default:
		return invalid("%d validation errors detected: %s", n, strings.Join(v.found, "; "))
	}
}

func (v *violations) tools(root any) {
	config := mapAt(root, "toolConfig")
	if config == nil {
		return
	}
	tools := listAt(config, "tools")
	if len(tools) == 0 {
		v.add("toolConfig.tools", "", "have length greater than or equal to 1")
	}
	for i, t := range tools {
		spec := mapAt(t, "toolSpec")
		if spec == nil {
			continue
		}
		at := fmt.Sprintf("toolConfig.tools.%d.member.toolSpec.", i+1)
		v.name(at+"name", textAt(spec, "name"), nameExtra, true)
		if d, ok := spec["description"].(string); ok && d == "" {
			v.add(at+"description", "'' ", "have length greater than or equal to 1")
		}
	}
}

func (v *violations) inference(config map[string]any) {
	if n, ok := intAt(config, "maxTokens"); ok && n < 1 {
		v.add("inferenceConfig.maxTokens", fmt.Sprintf("'%d' ", n), "have value greater than or equal to 1")
	}
	for _, name := range []string{"temperature", "topP"} {
		n, ok := config[name].(json.Number)
		if !ok {
			continue
		}
		f, _ := n.Float64()
		if f < 0 {
			v.add("inferenceConfig."+name, "'"+n.String()+"' ", "have value greater than or equal to 0")
		}
		if f > 1 {
			v.add("inferenceConfig."+name, "'"+n.String()+"' ", "have value less than or equal to 1")
		}
	}
	if stops := listAt(config, "stopSequences"); len(stops) > 2500 {
		v.add("inferenceConfig.stopSequences", "", "have length less than or equal to 2500")
	}
}

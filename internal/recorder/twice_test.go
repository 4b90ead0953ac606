package recorder

import (
	"strings"
	"testing"
)

// TestMembersThatStandTwice: whatever a forged line says twice, the answer alone
// and the whole interaction say the same.
func TestMembersThatStandTwice(t *testing.T) {
	head, _, _ := finishedRun(t)
	const open = `"response":{`
	for name, edit := range map[string][2]string{
		"a body before":                     {open, open + `"body":"x",`},
		"a body behind":                     {`,"duration"`, `,"body":"{}","duration"`},
		"a body with marks":                 {open, open + `"body":!!binary "AA==",`},
		"a body of escapes":                 {open, open + `"body":"\u0041\"\\",`},
		"no text as a body, refused":        {open, open + `"body":7,`},
		"an answer before":                  {`,"response":{`, `,"response":{"status":"x","code":1,"body":"y"},"response":{`},
		"an answer without a body, refused": {"", `,"response":{"code":7}`},
		"a request of a tool, refused":      {`,"response":{`, `,"request":{"url":"https://tool.invalid/x"},"response":{`},
		"headers twice":                     {open, open + `"headers":{"A":["b"]},`},
		"an unknown member":                 {open, open + `"more":{"body":"z"},`},
		"a name in capitals":                {open, open + `"Body":"z","CODE":9,`},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			for l := range strings.Lines(string(head)) {
				text := strings.TrimSuffix(l, "\n")
				if !strings.HasPrefix(text, "- ") {
					continue
				}
				text = text[:len(text)-sumTail]
				if edit[0] == "" {
					text += edit[1]
				} else {
					text = strings.Replace(text, edit[0], edit[1], 1)
				}
				bodies = append(bodies, text)
			}
			b := forge(t, bodies...)
			c, err := Parse("run.yaml", b)
			if err != nil {
				t.Fatalf("the sums do not fit: %v", err)
			}
			if _, err := c.Events(); (err != nil) != strings.Contains(name, "refused") {
				t.Errorf("events: %v", err)
			}
			readAll(t, b)
		})
	}
}

package bedrocktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

var allOps = []Op{OpConverse, OpConverseStream, OpCountTokens, OpInvoke, OpInvokeStream, OpApplyGuardrail, OpChatCompletions, OpMessages}

// No body may trip the judge, and it judges the same body the same way twice.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(hello), "x")
	f.Add([]byte(talk(user(ask), assistant(call("a")), user(result("a")))), "anthropic.claude-opus-4-6-v1")
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[null,1,"x",{},{"toolUse":3}]}],"toolConfig":{"tools":[null]},"system":"s"}`), "")
	f.Add([]byte(`{"max_tokens":1,"anthropic_version":"x","messages":[{"role":"user","content":[{"type":"tool_result"}]}],"thinking":{"type":"enabled"}}`), "a")
	f.Add([]byte(`{"input":{"invokeModel":{"body":"e30="}}}`), "a")
	f.Add([]byte(`{"messages":[{"role":"user","content":"\ud83d"}]}`), "a")
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		for _, op := range allOps {
			one, two := Validate(op, model, body), Validate(op, model, body)
			if (one == nil) != (two == nil) || (one != nil && *one != *two) {
				t.Errorf("%s: %v, then %v", op, one, two)
			}
			if one == nil && !utf8.Valid(body) {
				t.Errorf("%s accepted bytes that are not UTF-8", op)
			}
			r := parseRequest(op, model, http.Header{}, body)
			r.results()
			if root, err := decode(body); err == nil {
				newPromptCache(1).charge(model, root)
				countTokens(root)
			}
		}
	})
}

// The scan must agree with encoding/json about which escapes are lone: it
// replaces them by U+FFFD.
func FuzzLoneSurrogate(f *testing.F) {
	for _, s := range []string{`"\ud83d\ude42"`, `"\ud83d"`, `"\\ud83d"`, `"\ude42\ud83d"`, `"\ud83d\ud83d\ude42"`, `"\u0041\n"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if !utf8.ValidString(s) || json.Unmarshal([]byte(s), &got) != nil {
			t.Skip()
		}
		_, lone := loneSurrogate([]byte(s))
		written := strings.Count(strings.ToLower(s), `\ufffd`) + strings.Count(s, "\ufffd")
		if !lone && strings.Count(got, "\ufffd") > written {
			t.Errorf("%s decodes to %q and the scan found nothing", s, got)
		}
		if lone && !strings.Contains(got, "\ufffd") {
			t.Errorf("%s decodes to %q and the scan found a lone surrogate", s, got)
		}
	})
}

func FuzzRoute(f *testing.F) {
	for _, p := range []string{"/model/x/converse", "/model/a%2Fb/invoke", "/model//converse", "/model/%zz/converse", "/guardrail/a/version/1/apply", "/v1/messages"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		op, id, ok := route(path)
		if ok && strings.Contains(path, "/model/") && op != OpChatCompletions && op != OpMessages && op != OpApplyGuardrail && id == "" {
			t.Errorf("%q: operation %s without a model", path, op)
		}
	})
}

func FuzzParseEvents(f *testing.F) {
	f.Add([]byte(`[["a",{"x":1}],["!b",{}]]`))
	f.Add([]byte(`[["!",{}],["",null]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := ParseEvents(data)
		if err != nil {
			return
		}
		for _, op := range []Op{OpConverseStream, OpInvokeStream, OpMessages, OpChatCompletions} {
			a := answer{req: Request{Op: op, Stream: true}, turn: Turn{Events: append([]Event{}, events...)}, pad: padding(0, 0)}
			for _, e := range events {
				if len(e.Type) > 100 {
					return // longer than a header takes
				}
			}
			render(a)
		}
	})
}

// A cut text is the same text, in pieces that are each valid.
func FuzzCut(f *testing.F) {
	f.Add("héllo ✓🙂")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		pieces := Text(s).cut(s)
		if strings.Join(pieces, "") != s {
			t.Errorf("%q was cut into %q", s, pieces)
		}
		for _, p := range pieces {
			if utf8.ValidString(s) && !utf8.ValidString(p) {
				t.Errorf("%q was cut inside a rune", s)
			}
		}
	})
}

func FuzzEncodeFrame(f *testing.F) {
	f.Add("messageStart", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		if len(kind) > 1000 {
			t.Skip()
		}
		got := decodeFrames(t, EncodeFrame(kind, payload))
		if len(got) != 1 || got[0].Type != kind || !bytes.Equal(got[0].Payload, payload) {
			t.Errorf("%q %q came back as %v", kind, payload, got)
		}
	})
}

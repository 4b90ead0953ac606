package bedrocktest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

const tools = `"toolConfig":{"tools":[{"toolSpec":{"name":"now","inputSchema":{"json":{"type":"object"}}}}]}`

func user(blocks string) string      { return `{"role":"user","content":[` + blocks + `]}` }
func assistant(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }

func call(id string) string {
	return `{"toolUse":{"toolUseId":"` + id + `","name":"now","input":{}}}`
}

func result(id string) string {
	return `{"toolResult":{"toolUseId":"` + id + `","content":[{"text":"ok"}]}}`
}

const ask = `{"text":"hi"}`

// talk is a Converse body of these messages with the tools defined.
func talk(messages ...string) string {
	return `{"messages":[` + strings.Join(messages, ",") + `],` + tools + `}`
}

// with adds members to a body.
func with(body, members string) string { return `{` + members + `,` + body[1:] }

// Every rule has a body that breaks it and, where the border is near, one that
// does not (want is empty).
func TestRulesOfConverse(t *testing.T) {
	const llama, opus = "us.meta.llama3-1-70b-instruct-v1:0", "global.anthropic.claude-opus-4-6-v1"
	thinking := `"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024}}`
	reason := `{"reasoningContent":{"reasoningText":{"text":"so","signature":"c2ln"}}}`
	point := `{"cachePoint":{"type":"default"}}`
	hour := `{"cachePoint":{"type":"default","ttl":"1h"}}`
	long := strings.Repeat("x", 65)
	tests := []struct {
		rule, model, body, want string
	}{
		{"good", "", talk(user(ask)), ""},
		{"good loop", "", talk(user(ask), assistant(call("a")), user(result("a"))), ""},
		{"good: id repeated in a later turn", "", talk(user(ask), assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))), ""},
		{"good: no messages", "", `{}`, ""},
		{"good: system role between", "", talk(user(ask), `{"role":"system","content":[{"text":"s"}]}`, assistant(ask), user(ask)), ""},
		{"1", "", talk(assistant(ask)), "A conversation must start with a user message. Try again with a conversation that starts with a user message."},
		{"2", "", talk(user(ask), assistant(ask), assistant(ask)), "A conversation must alternate between user and assistant roles."},
		{"3", "", talk(user(ask), assistant(`{"text":"\t\n"}`), user(ask)), "The text field in the ContentBlock object at messages.1.content.0 is blank."},
		{"4 at the end", "", talk(user(ask), assistant(call("a"))), "Expected toolResult blocks at messages.2.content for the following Ids: a"},
		{"4 wrong id", "", talk(user(ask), assistant(call("a")), user(result("b"))), "Expected toolResult blocks at messages.2.content for the following Ids: a"},
		{"4 not for server tools", "", talk(user(ask), assistant(`{"toolUse":{"toolUseId":"s","name":"web","input":{},"type":"server_tool_use"}}`), user(ask)), ""},
		{"5", "", talk(user(ask), assistant(call("a")), user(result("a")+","+result("b"))), "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn."},
		{"5 nothing asked", "", talk(user(result("a"))), "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks of previous turn."},
		{"6", "", talk(user(ask), assistant(call("a")+","+call("a")), user(result("a"))), "The toolUse blocks at messages.1.content contain duplicate Ids: a"},
		{"7", "", talk(user(ask), assistant(call("a")), user(result("a")+","+result("a"))), "The toolResult blocks at messages.2.content contain duplicate Ids: a"},
		{"8", "", `{"messages":[` + user(ask) + `,` + assistant(call("a")) + `,` + user(result("a")) + `]}`, "The toolConfig field must be defined when using toolUse and toolResult content blocks."},
		{"9", "", talk(user(ask), assistant(call("a")), user(`{"text":"x"},{"toolResult":{"toolUseId":"a","content":[],"status":"error"}}`)), "The content field at messages.2.content.1.toolResult cannot be empty when status value is error."},
		{"9 success may be empty", "", talk(user(ask), assistant(call("a")), user(`{"toolResult":{"toolUseId":"a","content":[],"status":"success"}}`)), ""},
		{"10 null", "", talk(user(ask), assistant(call("a")), user(`{"toolResult":{"toolUseId":"a","content":[{"text":"x"},{"json":null}]}}`)), "The format of the value at messages.2.content.0.toolResult.content.1.json is invalid. Provide a json object for the field and try again."},
		{"10 input", "", talk(user(ask), assistant(`{"toolUse":{"toolUseId":"a","name":"now","input":"{}"}}`), user(result("a"))), "The format of the value at messages.1.content.0.toolUse.input is invalid. Provide a json object"},
		{"10 schema", "", with(`{"messages":[`+user(ask)+`]}`, `"toolConfig":{"tools":[{"toolSpec":{"name":"a","inputSchema":{"json":[123,34]}}}]}`), "The format of the value at toolConfig.tools.0.toolSpec.inputSchema.json is invalid."},
		{"10 schema type", "", with(`{"messages":[`+user(ask)+`]}`, `"toolConfig":{"tools":[{"toolSpec":{"name":"a","inputSchema":{"json":{"type":"string"}}}}]}`), "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object."},
		{"11 empty", "", with(`{"messages":[`+user(ask)+`]}`, `"toolConfig":{"tools":[{"toolSpec":{"name":"","description":"","inputSchema":{"json":{"type":"object"}}}}]}`),
			"3 validation errors detected: Value '' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+; Value '' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must have length greater than or equal to 1; Value '' at 'toolConfig.tools.1.member.toolSpec.description' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"11 no tools", "", `{"messages":[],"toolConfig":{"tools":[]}}`, "1 validation error detected: Value at 'toolConfig.tools' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"12", "", talk(user(ask), assistant(call("a b")), user(result("a b"))), "2 validation errors detected: Value at 'messages.2.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+; Value at 'messages.3.member.content.1.member.toolResult.toolUseId'"},
		{"12 long", "", talk(user(ask), assistant(call(long)), user(result(long))), "Member must have length less than or equal to 64"},
		{"12 64 is fine", "", talk(user(ask), assistant(call(long[:64])), user(result(long[:64]))), ""},
		{"13", "", with(talk(user(ask), assistant(ask+","+call("a")), user(result("a"))), thinking), "The model returned the following errors: messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."},
		{"13 tool first", "", with(talk(user(ask), assistant(call("a")), user(result("a"))), thinking), "but found `tool_use`"},
		{"13 good", "", with(talk(user(ask), assistant(reason+","+call("a")), user(result("a"))), thinking), ""},
		{"13 not in a tool loop", "", with(talk(user(ask), assistant(ask), user(ask)), thinking), ""},
		{"15", llama, talk(user(ask), assistant(ask+","+call("a")), user(result("a"))), "Conversation blocks and tool use blocks cannot be provided in the same turn."},
		{"15 results", llama, talk(user(ask), assistant(call("a")), user(ask+","+result("a"))), "Conversation blocks and tool result blocks cannot be provided in the same turn."},
		{"15 others may", "", talk(user(ask), assistant(ask+","+call("a")), user(result("a"))), ""},
		{"16", "", with(talk(user(ask+strings.Repeat(","+point, 3))), `"system":[{"text":"s"},`+point+`,`+point+`]`), "The model returned the following errors: A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{"16 four", "", talk(user(ask + strings.Repeat(","+point, 4))), ""},
		{"17", "", with(talk(user(ask+","+hour)), `"system":[{"text":"s"},`+point+`]`), "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"},
		{"17 good", "", with(talk(user(ask+","+point)), `"system":[{"text":"s"},`+hour+`]`), ""},
		{"18", opus, talk(user(ask), assistant(ask)), "This model does not support assistant message prefill. The conversation must end with a user message."},
		{"18 older", "anthropic.claude-opus-4-5-20251101-v1:0", talk(user(ask), assistant(ask)), ""},
		{"18 sonnet 5", "global.anthropic.claude-sonnet-5", talk(user(ask), assistant(ask)), "does not support assistant message prefill"},
		{"18 older sonnet", "anthropic.claude-sonnet-4-20250514-v1:0", talk(user(ask), assistant(ask)), ""},
		{"19", "", talk(user(`{"text":"` + strings.Repeat("a", 900_000) + `"}`)), "Input is too long for requested model."},
		{"19 with output", opus, with(talk(user(ask)), `"inferenceConfig":{"maxTokens":200000}`), "input length and `max_tokens` exceed context limit: "},
		{"20 space", "no such model", talk(user(ask)), "The provided model identifier is invalid."},
		{"20 arn", "arn:aws:s3:::bucket/key", talk(user(ask)), "The provided model identifier is invalid."},
		{"20 empty", "?", talk(user(ask)), "The provided model identifier is invalid."},
		{"23", "", `{"messages":[{"role":"user","content":[{"text":"\ud83d"}]}]}`, "The request body is not valid JSON: no low surrogate in string: line 1 column 49 (char 48)"},
		{"23 swapped", "", talk(user(`{"text":"\ude42\ud83d"}`)), "no low surrogate in string"},
		{"23 pair", "", talk(user(`{"text":"\ud83d\ude42 \\ud83d"}`)), ""},
		{"23 bytes", "", talk(user(`{"text":"` + "\xed\xa0\xbd" + `"}`)), "surrogates not allowed"},
		{"23 cut", "", `{"messages":[`, "The request body is not valid JSON: "},
		{"23 two values", "", hello + hello, "The request body is not valid JSON: "},
		{"a", "", talk(user(ask), assistant(``), user(ask)), "The content field in the Message object at messages.1 is empty."},
		{"b", "", talk(user(ask), assistant(call("a")), user(`{"toolResult":{"toolUseId":"a","content":[{"text":""}]}}`)), "The model returned the following errors: messages: text content blocks must be non-empty"},
		{"limits", "", with(talk(user(ask)), `"inferenceConfig":{"maxTokens":0,"temperature":1.5,"topP":-1}`), "3 validation errors detected: Value '0' at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1; Value '1.5' at 'inferenceConfig.temperature'"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			model := tt.model
			if model == "" {
				model = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
			}
			judge(t, Validate(OpConverse, model, []byte(tt.body)), tt.want)
			count := fmt.Sprintf(`{"input":{"converse":%s}}`, tt.body)
			if !strings.HasPrefix(tt.rule, "23") {
				judge(t, Validate(OpCountTokens, model, []byte(count)), tt.want)
			}
		})
	}
}

func judge(t *testing.T, got *APIError, want string) {
	t.Helper()
	switch {
	case want == "" && got != nil:
		t.Errorf("refused with %q, want accepted", got)
	case want != "" && got == nil:
		t.Errorf("accepted, want %q", want)
	case got != nil && (got.Status != 400 || got.Type != "ValidationException" || !strings.Contains(got.Message, want)):
		t.Errorf("refused with %d %q\nwant %q", got.Status, got, want)
	}
}

func TestRulesOfAnthropicBodies(t *testing.T) {
	body := func(messages ...string) string {
		return `{"anthropic_version":"bedrock-2023-05-31","max_tokens":10,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	ask := `{"role":"user","content":"hi"}`
	use := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"now","input":{}}` }
	res := func(id string) string { return `{"type":"tool_result","tool_use_id":"` + id + `","content":"ok"}` }
	tests := []struct{ name, body, want string }{
		{"good", body(ask, assistant(use("a")), user(res("a"))), ""},
		{"good: results over two user messages", body(ask, assistant(use("a")+","+use("b")), user(res("a")), user(res("b"))), ""},
		{"empty text", body(ask, assistant(`{"type":"text","text":""}`), ask), "messages: text content blocks must be non-empty"},
		{"blank text", body(`{"role":"user","content":" "}`), "messages: text content blocks must contain non-whitespace text"},
		{"no result", body(ask, assistant(use("a")+","+use("b")), user(res("b"))), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have"},
		{"surplus", body(ask, assistant(use("a")), user(res("a")+","+res("z"))), "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: z."},
		{"double use", body(ask, assistant(use("a")+","+use("a")), user(res("a"))), "`tool_use` ids must be unique"},
		{"double result", body(ask, assistant(use("a")), user(res("a")+","+res("a"))), "each tool_use must have a single result"},
		{"input", body(ask, assistant(`{"type":"tool_use","id":"a","name":"now","input":"{}"}`), user(res("a"))), "messages.1.content.0.tool_use.input: Input should be a valid dictionary"},
		{"name", body(ask, assistant(`{"type":"tool_use","id":"a","name":"a.b","input":{}}`), user(res("a"))), "messages.1.content.0.tool_use.name: String should match pattern"},
		{"no max_tokens", `{"anthropic_version":"x","messages":[` + ask + `]}`, "max_tokens: Field required"},
		{"no version", `{"max_tokens":1,"messages":[` + ask + `]}`, "anthropic_version: Field required"},
		{"no messages", body(), "messages: at least one message is required"},
		{"assistant opens", body(assistant(`{"type":"text","text":"x"}`)), `first message must use the "user" role`},
		{"thinking", with(body(ask, assistant(use("a")), user(res("a"))), `"thinking":{"type":"enabled"}`), "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."},
		{"five points", body(user(strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 5), ","))), "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{"too long", body(user(`{"type":"text","text":"` + strings.Repeat("x", 900_000) + `"}`)), "prompt is too long: "},
		{"1h after 5m", body(user(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"y","cache_control":{"type":"ephemeral","ttl":"1h"}}`)), "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			judge(t, Validate(OpInvoke, "anthropic.claude-haiku-4-5", []byte(tt.body)), tt.want)
			count := `{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(tt.body)) + `"}}}`
			judge(t, Validate(OpCountTokens, "anthropic.claude-haiku-4-5", []byte(count)), tt.want)
			if tt.name != "no version" {
				judge(t, Validate(OpMessages, "", []byte(tt.body)), tt.want)
			}
		})
	}
}

// The same rule reads the model from the path or from the body.
func TestRulesOfAnthropicPrefill(t *testing.T) {
	body := `{"model":"claude-opus-4-7","anthropic_version":"x","max_tokens":10,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"I"}]}`
	const want = "This model does not support assistant message prefill. The conversation must end with a user message."
	judge(t, Validate(OpMessages, "", []byte(body)), want)
	judge(t, Validate(OpInvoke, "global.anthropic.claude-opus-4-6-v1", []byte(body)), want)
	judge(t, Validate(OpInvoke, "anthropic.claude-haiku-4-5", []byte(body)), "")
}

func TestRulesOfTheRest(t *testing.T) {
	chat := func(messages string) string {
		return `{"model":"openai.gpt-oss-120b-1:0","messages":[` + messages + `]}`
	}
	calls := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"now","arguments":"{}"}}]}`
	tests := []struct {
		op         Op
		body, want string
	}{
		{OpChatCompletions, chat(`{"role":"user","content":"hi"}`), ""},
		{OpChatCompletions, chat(calls + `,{"role":"tool","tool_call_id":"a","content":"ok"}`), ""},
		{OpChatCompletions, chat(calls + `,{"role":"user","content":"hi"}`), "The following tool_call_ids did not have response messages: a"},
		{OpChatCompletions, chat(`{"role":"tool","tool_call_id":"a","content":"ok"}`), "must be a response to a preceding message"},
		{OpChatCompletions, chat(``), "is too short"},
		{OpChatCompletions, `{"messages":[]}`, "must provide a model"},
		{OpApplyGuardrail, `{"source":"INPUT","content":[]}`, ""},
		{OpApplyGuardrail, `{"source":"input"}`, "Member must satisfy enum value set: [INPUT, OUTPUT]"},
		{OpCountTokens, `{"input":{}}`, "Value at 'input'"},
		{OpCountTokens, `{"input":{"invokeModel":{"body":"*"}}}`, "is not base64"},
	}
	for _, tt := range tests {
		judge(t, Validate(tt.op, "x", []byte(tt.body)), tt.want)
	}
	v := Validator{Models: []string{"a.b"}, ContextTokens: 3}
	judge(t, v.Validate(OpConverse, "c.d", []byte(hello)), "The provided model identifier is invalid.")
	judge(t, v.Validate(OpConverse, "a.b", []byte(hello)), "Input is too long for requested model.")
}

// A rule without a source could not be argued with.
func TestEveryRuleNamesItsSource(t *testing.T) {
	for _, r := range append(Validator{}.converseRules(), Validator{}.anthropicRules()...) {
		if r.id == "" || r.source == "" || r.check == nil {
			t.Errorf("rule %q has source %q", r.id, r.source)
		}
	}
}

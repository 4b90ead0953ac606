package bedrocktest

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Validator holds what the rules need to know beyond the request. Its zero
// value accepts every well-formed model id and allows 200,000 tokens.
type Validator struct {
	ContextTokens int      // input tokens a model takes; zero means 200,000
	Models        []string // ids that exist; empty means all
}

// Validate applies the rules of a zero Validator. It answers nil for a request
// the service would accept. It is a pure function.
func Validate(op Op, modelID string, body []byte) *APIError {
	return Validator{}.Validate(op, modelID, body)
}

// rule is one reason for which the service refuses a request. The number is
// that of the list of public reports this package was made from; letters mark
// rules found beside it.
type rule struct {
	id     string
	source string // where the text or the behaviour was reported
	check  func(*conversation) *APIError
}

// converseRules are in the order in which they are applied: constraints of the
// service's model, then what its own code checks, then what a model refuses.
// Where a request breaks two rules the reports decide the order (results split
// over two user messages are reported as a missing result, not as a repeated
// role).
func (v Validator) converseRules() []rule {
	return []rule{
		{"11,12", "openclaw#12892, awslabs/mcp#3181, pydantic-ai#4631, llama_index#22775, bifrost#6300, litellm#19384", checkConstraints},
		{"8", "dify#16421, vercel/ai#7537, strands#998", checkToolConfig},
		{"a", "earendil-works/pi#3443", checkEmptyContent},
		{"1", "langgenius/dify#12340", checkStartsWithUser},
		{"10", "aws-sdk-js-v3#7330, sympozium#255, spring-ai-alibaba#3082", checkJSONObjects},
		{"3", "OpenHands#5339, botocore#3525", checkBlankText},
		{"9", "sample-multi-agent-orchestration-chat-on-agentcore#15", checkEmptyErrorResult},
		{"6", "Cyber-AutoAgent-ng#72", checkDuplicateUses},
		{"7", "litellm#20047", checkDuplicateResults},
		{"4", "genkit aws-bedrock-js-plugin#664, camel#3954, agno#6698", checkMissingResults},
		{"5", "pydantic-ai#2327, strands harness-sdk#1435, fast-agent#624", checkSurplusResults},
		{"2", "langchain-aws#130, langchain-aws#192", checkAlternation},
		{"15", "strands harness-sdk#1223, quarkus-langchain4j#1983", checkMixedTurns},
		{"b", "hermes-agent#55092", checkEmptyResultText},
		{"16", "Anthropic's public wording", checkCachePointCount},
		{"17", "strands harness-sdk#3758, #3571", checkCacheTTLOrder},
		{"13", "langchain-aws#844, Roo-Code#11238", checkThinkingFirst},
		{"18", "Anthropic's public wording", checkPrefill},
		{"19", "strands src/strands/models/bedrock.py", v.checkLength},
	}
}

// anthropicRules apply to Anthropic bodies, wrapped by Bedrock or not.
func (v Validator) anthropicRules() []rule {
	const reports = "opencode#15715, claude-code#2043, agent-chat-ui#80, litellm#19324"
	return []rule{
		{"22", "Anthropic's public wording", checkAnthropicMembers},
		{"22", reports, checkAnthropicShapes},
		{"22", reports, checkAnthropicPairs},
		{"16", "Anthropic's public wording", checkCachePointCount},
		{"17", "strands harness-sdk#3758, #3571", checkCacheTTLOrder},
		{"13", "langchain-aws#844, Roo-Code#11238", checkThinkingFirst},
		{"18", "Anthropic's public wording", checkPrefill},
		{"19", "strands src/strands/models/bedrock.py", v.checkLength},
	}
}

// Validate answers the refusal the service would give, or nil.
func (v Validator) Validate(op Op, modelID string, body []byte) *APIError {
	root, err := decode(body)
	if e := v.checkForm(op, modelID, body, err); e != nil {
		return e
	}
	return v.judge(op, modelID, root)
}

// checkForm holds the rules that come before the body can be read.
func (v Validator) checkForm(op Op, modelID string, body []byte, decoding error) *APIError {
	if e := v.checkModelID(op, modelID); e != nil {
		return e
	}
	if e := checkJSON(body); e != nil {
		return e
	}
	if decoding != nil {
		return invalid("The request body is not valid JSON: %v", decoding)
	}
	return nil
}

// judge applies the rules to a decoded body.
func (v Validator) judge(op Op, modelID string, root any) *APIError {
	switch op {
	case OpCountTokens:
		return v.countTokens(modelID, root)
	case OpApplyGuardrail:
		return checkGuardrail(root)
	case OpChatCompletions:
		return checkOpenAI(root)
	}
	return v.apply(newConversation(op, modelID, root))
}

func (v Validator) apply(c *conversation) *APIError {
	rules := v.converseRules()
	if c.anthropic {
		rules = v.anthropicRules()
	}
	for _, r := range rules {
		if e := r.check(c); e != nil {
			return e
		}
	}
	return nil
}

// countTokens looks inside the union of CountTokens' input.
func (v Validator) countTokens(modelID string, root any) *APIError {
	if inner := mapAt(root, "input", "converse"); inner != nil {
		return v.apply(newConversation(OpConverse, modelID, inner))
	}
	body, ok := valueAt(root, "input", "invokeModel", "body").(string)
	if !ok {
		return invalid("1 validation error detected: Value at 'input' failed to satisfy constraint: Member must not be null")
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return invalid("The request body is not valid JSON: input.invokeModel.body is not base64: %v", err)
	}
	return v.Validate(OpInvoke, modelID, raw)
}

func checkGuardrail(root any) *APIError {
	if s := textAt(root, "source"); s != "INPUT" && s != "OUTPUT" {
		return invalid("1 validation error detected: Value '%s' at 'source' failed to satisfy constraint: Member must satisfy enum value set: [INPUT, OUTPUT]", s)
	}
	return nil
}

// Rule 20, vercel/ai#14117. The pattern is that of the service model; "x" is a
// legal spelling, so only an allow-list can know which models exist.
func (v Validator) checkModelID(op Op, id string) *APIError {
	if op == OpApplyGuardrail || op == OpChatCompletions || op == OpMessages {
		return nil
	}
	ok := id != "" && len(id) <= 2048 && only(id[:1], "") && only(id, ".:/_-")
	if strings.HasPrefix(id, "arn:") {
		ok = regexp.MustCompile(`^arn:aws(-[a-z-]+)?:(bedrock|sagemaker):[a-z0-9-]{1,20}:([0-9]{12})?:[a-z-]+/[a-zA-Z0-9.:/_-]+$`).MatchString(id)
	}
	if !ok || (len(v.Models) > 0 && !slices.Contains(v.Models, id)) {
		return unknownModel()
	}
	return nil
}

func unknownModel() *APIError { return invalid("The provided model identifier is invalid.") }

// Rule 23, claude-code#69927, #72995: an escaped surrogate without its partner,
// or bytes that are not UTF-8.
func checkJSON(body []byte) *APIError {
	at, ok := loneSurrogate(body)
	if ok {
		return invalid("The request body is not valid JSON: no low surrogate in string: line 1 column %d (char %d)", at+1, at)
	}
	if at, ok := badUTF8(body); ok {
		return invalid("The request body is not valid JSON: invalid UTF-8: surrogates not allowed (char %d)", at)
	}
	return nil
}

// conversation is a request as the rules see it: the raw maps, with the indices
// the messages quote.
type conversation struct {
	model     string
	anthropic bool // Anthropic's body
	wrapped   bool // inside InvokeModel
	root      any
	messages  []message // user and assistant; system messages do not take part in turns
}

type message struct {
	index  int
	role   string
	blocks []block
}

// block is one content block; kind is its union member or its type.
type block struct {
	index int
	kind  string
	body  any // the member's value (Converse) or the whole block (Anthropic)
}

func newConversation(op Op, modelID string, root any) *conversation {
	wrapped := op == OpInvoke || op == OpInvokeStream
	c := &conversation{model: modelID, anthropic: wrapped || op == OpMessages, wrapped: wrapped, root: root}
	if op == OpMessages {
		c.model = textAt(root, "model")
	}
	for i, m := range listAt(root, "messages") {
		msg := message{index: i, role: textAt(m, "role")}
		if msg.role == "system" {
			continue
		}
		if s, ok := valueAt(m, "content").(string); ok && c.anthropic {
			msg.blocks = []block{{0, "text", map[string]any{"type": "text", "text": s}}}
		}
		for j, b := range listAt(m, "content") {
			msg.blocks = append(msg.blocks, c.block(j, b))
		}
		c.messages = append(c.messages, msg)
	}
	return c
}

func (c *conversation) block(index int, b any) block {
	if c.anthropic {
		return block{index, textAt(b, "type"), b}
	}
	m, _ := b.(map[string]any)
	for _, kind := range sortedKeys(m) {
		return block{index, kind, m[kind]}
	}
	return block{index: index}
}

func (c *conversation) last() *message {
	if len(c.messages) == 0 {
		return nil
	}
	return &c.messages[len(c.messages)-1]
}

// ids lists the ids of the message's blocks of one kind, in order. Calls the
// service runs itself need no result.
func (m message) ids(kind, member string) []string {
	var ids []string
	for _, b := range m.blocks {
		if b.kind == kind && textAt(b.body, "type") != "server_tool_use" {
			ids = append(ids, textAt(b.body, member))
		}
	}
	return ids
}

func (m message) uses() []string    { return m.ids("toolUse", "toolUseId") }
func (m message) results() []string { return m.ids("toolResult", "toolUseId") }

func (m message) has(kind string) bool {
	return slices.ContainsFunc(m.blocks, func(b block) bool { return b.kind == kind })
}

func (m message) content() string { return fmt.Sprintf("messages.%d.content", m.index) }

func (m message) at(b block) string { return fmt.Sprintf("messages.%d.content.%d", m.index, b.index) }

// repeated lists the ids that occur more than once, each once.
func repeated(ids []string) []string {
	seen, out := map[string]int{}, []string(nil)
	for _, id := range ids {
		if seen[id]++; seen[id] == 2 {
			out = append(out, id)
		}
	}
	return out
}

// missing lists the ids of want that are not in have, each once.
func missing(want, have []string) []string {
	var out []string
	for _, id := range want {
		if !slices.Contains(have, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

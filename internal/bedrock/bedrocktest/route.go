package bedrocktest

import (
	"net/url"
	"strings"
)

// Op is an operation of the runtime.
type Op string

// The operations the server answers.
const (
	OpConverse        Op = "Converse"
	OpConverseStream  Op = "ConverseStream"
	OpCountTokens     Op = "CountTokens"
	OpInvoke          Op = "InvokeModel"
	OpInvokeStream    Op = "InvokeModelWithResponseStream"
	OpApplyGuardrail  Op = "ApplyGuardrail"
	OpChatCompletions Op = "ChatCompletions" // OpenAI's body
	OpMessages        Op = "Messages"        // Anthropic's body, not wrapped by Bedrock
)

// route finds the operation and the model id. It looks at the escaped path:
// clients spell an ARN's slash both as %2F and as itself, so only the last
// segment is certain to be the operation (vercel/ai#17410).
func route(escapedPath string) (Op, string, bool) {
	switch {
	case strings.HasSuffix(escapedPath, "/chat/completions"):
		return OpChatCompletions, "", true
	case strings.HasSuffix(escapedPath, "/v1/messages"):
		return OpMessages, "", true
	case strings.Contains(escapedPath, "/guardrail/") && strings.HasSuffix(escapedPath, "/apply"):
		return OpApplyGuardrail, "", true
	}
	_, rest, found := strings.Cut(escapedPath, "/model/")
	cut := strings.LastIndexByte(rest, '/')
	if !found || cut <= 0 {
		return "", "", false
	}
	op, ok := modelOp(rest[cut+1:])
	id, err := url.PathUnescape(rest[:cut])
	return op, id, ok && err == nil
}

func modelOp(segment string) (Op, bool) {
	switch segment {
	case "converse":
		return OpConverse, true
	case "converse-stream":
		return OpConverseStream, true
	case "count-tokens":
		return OpCountTokens, true
	case "invoke":
		return OpInvoke, true
	case "invoke-with-response-stream":
		return OpInvokeStream, true
	}
	return "", false
}

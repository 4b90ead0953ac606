package bedrock

import (
	"errors"
	"strings"
	"testing"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/edge"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct{ name, message, hint string }{
		{"AccessDeniedException", "You don't have access to the model with the specified model ID.", "Model access"},
		{"AccessDeniedException", "User: x is not authorized to perform: bedrock:InvokeModel on resource: y", "bedrock:InvokeModelWithResponseStream"},
		{"ValidationException", "Invocation of model ID anthropic.claude-x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.", "inference profile"},
		{"ValidationException", "Invocation of model ID x with on-demand throughput isn't supported.", "inference profile"},
		{"ValidationException", "The provided model identifier is invalid.", "list-foundation-models"},
		{"ValidationException", "The model returned the following errors: `temperature` is deprecated for this model.", "leave it out"},
		{"ExpiredTokenException", "The security token included in the request is expired", "aws sso login"},
		{"UnrecognizedClientException", "The security token included in the request is invalid.", "AWS_ACCESS_KEY_ID"},
		{"ThrottlingException", "Too many tokens per day, please wait before trying again.", "daily quota"},
		{"ThrottlingException", "Too many requests", "Service Quotas"},
		{"ResourceNotFoundException", "gone", "list-inference-profiles"},
		{unexpectedAnswer, `HTTP 200 with a web page ("Sign in") instead of Bedrock's answer`, "HTTPS_PROXY"},
		{connectionFailed, "the connection was refused", "--model rule"},
		{connectionFailed, "the endpoint's host name could not be resolved", "region"},
		{connectionFailed, "the endpoint's certificate is signed by an authority that is not trusted", "AWS_CA_BUNDLE"},
		{noCredentials, "no AWS credentials were found", "--model rule"},
	} {
		message, hint := Explain(edge.Failure{Name: c.name, Message: c.message})
		if !strings.Contains(hint, c.hint) || !strings.Contains(message, c.message) {
			t.Errorf("%s %q: message %q, hint %q, expected %q in it", c.name, c.message, message, hint, c.hint)
		}
	}
}

func TestExplainKeepsWhatItDoesNotKnow(t *testing.T) {
	if message, hint := Explain(edge.Failure{Name: "ShinyException", Message: "glitter"}); message != "ShinyException: glitter" || hint != "" {
		t.Errorf("message %q, hint %q", message, hint)
	}
	if message, hint := ExplainError(errors.New("plain")); message != "plain" || hint != "" {
		t.Errorf("message %q, hint %q", message, hint)
	}
}

// TestEveryRefusalHasAHint runs each final trouble of the local Bedrock through
// Explain: nobody is left with an error text alone.
func TestEveryRefusalHasAHint(t *testing.T) {
	for _, name := range bedrocktest.FaultNames() {
		row := troubles(true)[name]
		if row == nil {
			continue
		}
		message, hint := Explain(row.failure)
		transient := row.failure.Name == incompleteAnswer || row.failure.Name == damagedAnswer || strings.HasPrefix(row.failure.Name, "Model")
		if message == "" || (hint == "" && !transient) {
			t.Errorf("%s: message %q, hint %q", name, message, hint)
		}
	}
}

// TestHintsAreReachable: no piece of advice is hidden by one before it.
func TestHintsAreReachable(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range advice() {
		name, _, _ := strings.Cut(a.names, " ")
		if name == "" {
			name = "AnyException"
		}
		_, hint := Explain(edge.Failure{Name: name, Message: "x " + a.text})
		if hint != a.hint {
			t.Errorf("%s %q gets the hint %q", a.names, a.text, hint)
		}
		if key := a.names + a.text; seen[key] {
			t.Errorf("%s %q stands twice", a.names, a.text)
		} else {
			seen[key] = true
		}
		if strings.ToLower(a.text) != a.text {
			t.Errorf("%q is not lower case, so it fits nothing", a.text)
		}
	}
}

func TestUnreachable_NotForTheModelsOwnErrors(t *testing.T) {
	for _, name := range []string{"ValidationException", "ThrottlingException", incompleteAnswer, damagedAnswer, callTimeout} {
		if Unreachable(edge.Failure{Name: name, Status: 400}) {
			t.Errorf("%s counts as unreachable", name)
		}
	}
}

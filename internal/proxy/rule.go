package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"investigator/internal/foreign"
	"investigator/internal/rule"
)

// RuleUpstream is the rule model behind Bedrock's front doors: no account, no
// network. It answers Converse, Anthropic's Messages (also in InvokeModel) and
// OpenAI's Chat Completions, whole and streamed, CountTokens and ApplyGuardrail.
// Bodies of InvokeModel in other shapes are refused by name.
type RuleUpstream struct{}

// Place implements Upstream.
func (RuleUpstream) Place(path string) string { return "https://rule.invalid" + path }

// Do implements Upstream.
func (RuleUpstream) Do(r *http.Request, body []byte) (*http.Response, error) {
	route, _ := foreign.ParseRoute(r.URL.EscapedPath())
	asked, err := foreign.ReadRequest(route, body)
	if err != nil {
		return refused(foreign.Asked{Route: route}, err.Error()), nil
	}
	switch route.Op {
	case foreign.OpCountTokens:
		return whole(fmt.Appendf(nil, `{"inputTokens":%d}`, len(body)/4)), nil
	case foreign.OpApplyGuardrail:
		return whole([]byte(`{"action":"NONE","assessments":[],"outputs":[],"usage":{}}`)), nil
	}
	req, err := asked.ToConverse()
	if err != nil {
		text := "the rule model speaks Converse, Anthropic's Messages and OpenAI's Chat Completions: " + err.Error()
		return refused(asked, text), nil
	}
	e, err := foreign.Encode(asked, rule.Respond(req))
	if err != nil {
		return nil, err
	}
	return response(http.StatusOK, "", e), nil
}

func refused(a foreign.Asked, text string) *http.Response {
	const name = "ValidationException"
	return response(http.StatusBadRequest, name, foreign.EncodeFailure(a, name, text))
}

func whole(body []byte) *http.Response {
	return response(http.StatusOK, "", foreign.Encoded{ContentType: "application/json", Body: body})
}

func response(status int, errorType string, e foreign.Encoded) *http.Response {
	h := http.Header{"Content-Type": {e.ContentType}}
	if errorType != "" {
		h.Set("X-Amzn-Errortype", errorType)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(e.Body)), ContentLength: int64(len(e.Body))}
}

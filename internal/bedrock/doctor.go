package bedrock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"investigator/internal/converse"
	"investigator/internal/edge"
)

// Check is one thing that Doctor looked at.
type Check struct {
	Name   string `json:"name"` // configuration, region, model, credentials, endpoint or call
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`         // what was found
	Hint   string `json:"hint,omitempty"` // what to do, when not OK
}

// reachTimeout bounds how long an endpoint may take to answer at all, and
// tinyTimeout the tiny call.
const (
	reachTimeout = 5 * time.Second
	tinyTimeout  = 30 * time.Second
)

// Doctor checks everything a run on Bedrock needs, in the order in which it is
// needed, and goes on after a failed check where the next one can still say
// something. callModel also makes one call of at most one output token, which
// costs a fraction of a cent. It ends early when ctx does.
func Doctor(ctx context.Context, o Options, callModel bool) []Check {
	s, err := load(ctx, o)
	if err != nil {
		return []Check{failed("configuration", err)}
	}
	checks := []Check{s.regionCheck(), modelCheck(o.Model, s.cfg.Region), s.credentialsCheck(ctx), s.endpointCheck(ctx)}
	if !callModel || ctx.Err() != nil {
		return checks
	}
	for _, c := range checks {
		if !c.OK {
			return append(checks, Check{Name: "call", Detail: "not made, because of what is wrong above"})
		}
	}
	return append(checks, s.tinyCall(ctx))
}

func failed(name string, err error) Check {
	message, hint := ExplainError(err)
	return Check{Name: name, Detail: message, Hint: hint}
}

func (s *setup) regionCheck() Check {
	if err := s.check(); err != nil {
		return failed("region", err)
	}
	return Check{Name: "region", OK: true, Detail: s.cfg.Region}
}

func (s *setup) credentialsCheck(ctx context.Context) Check {
	found, err := s.credentials(ctx)
	if err != nil {
		return failed("credentials", err)
	}
	detail := "from " + cmp.Or(found.Source, "an unnamed source")
	if found.CanExpire {
		detail += ", valid until " + found.Expires.UTC().Format(time.RFC3339)
	}
	return Check{Name: "credentials", OK: true, Detail: detail}
}

// endpointCheck finds out whether anything answers at the endpoint. It sends no
// credentials, so any HTTP status will do.
func (s *setup) endpointCheck(ctx context.Context) Check {
	if s.cfg.Region == "" && s.endpoint() == "" {
		return Check{Name: "endpoint", Detail: "not looked for, because no region says where it is"}
	}
	target, err := s.target(ctx)
	if err != nil {
		return Check{Name: "endpoint", Detail: err.Error(), Hint: "Check --region and --endpoint-url."}
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Check{Name: "endpoint", Detail: err.Error(), Hint: "Check --endpoint-url."}
	}
	resp, err := s.http.Do(req)
	if err != nil {
		f := edge.Failure{Name: connectionFailed, Message: networkProblem(err)}
		message, hint := Explain(f)
		return Check{Name: "endpoint", Detail: target + ": " + message, Hint: hint}
	}
	defer resp.Body.Close()
	defer s.http.CloseIdleConnections()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		_, hint := Explain(edge.Failure{Name: unexpectedAnswer, Message: "a web page"})
		return Check{Name: "endpoint", Detail: fmt.Sprintf("%s answers with a page (HTTP %d)", target, resp.StatusCode), Hint: hint}
	}
	return Check{Name: "endpoint", OK: true, Detail: target + " answers"}
}

// target is the URL of the endpoint in use.
func (s *setup) target(ctx context.Context) (string, error) {
	o := s.client.Options()
	params := bedrockruntime.EndpointParameters{Endpoint: o.BaseEndpoint}.WithDefaults()
	if o.Region != "" {
		params.Region = &o.Region
	}
	found, err := o.EndpointResolverV2.ResolveEndpoint(ctx, params)
	if err != nil {
		return "", fmt.Errorf("resolve endpoint of region %q: %w", o.Region, err)
	}
	u := url.URL{Scheme: found.URI.Scheme, Host: found.URI.Host, Path: found.URI.Path}
	return u.String(), nil
}

// tinyCall asks for one token, without trying long.
func (s *setup) tinyCall(ctx context.Context) Check {
	tiny := *s
	tiny.CallTimeout, tiny.MaxAttempts = tinyTimeout, 2
	rest, err := converse.NewRest(json.RawMessage(`{"inferenceConfig":{"maxTokens":1}}`))
	if err != nil {
		return failed("call", err)
	}
	question := converse.Message("user", []json.RawMessage{converse.TextBlock("Say yes.")})
	e := tiny.edge()
	defer e.Close()
	r, err := e.Do(ctx, edge.Call{Kind: edge.Model, Request: converse.Request{Model: s.Model, Messages: converse.NewThread(question), Rest: rest}})
	if err != nil {
		return failed("call", err)
	}
	if r.Failed {
		f, _ := edge.ParseFailure(r.Body) // made by this package
		message, hint := Explain(f)
		return Check{Name: "call", Detail: message, Hint: hint}
	}
	turn, err := converse.ParseTurn(r.Body)
	if err != nil {
		return failed("call", err)
	}
	return Check{Name: "call", OK: true, Detail: fmt.Sprintf("answered in %s, %d tokens in, %d out", r.Took, turn.Usage.Input, turn.Usage.Output)}
}

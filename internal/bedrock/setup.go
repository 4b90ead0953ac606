package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"investigator/internal/edge"
)

// Defaults of Options.
const (
	defaultCallTimeout = 15 * time.Minute
	defaultIdleTimeout = 2 * time.Minute
	defaultAttempts    = 8
)

// probeTimeout bounds how long finding credentials may take. Off EC2 the last
// source of the SDK's chain would hang for many seconds.
const probeTimeout = 2 * time.Second

// bearerVariable holds a Bedrock API key. The SDK prefers it to any other
// credentials.
const bearerVariable = "AWS_BEARER_TOKEN_BEDROCK"

// Names of failures of the setup.
const (
	noCredentials  = "NoCredentials"
	expiredSession = "ExpiredSession"
	noRegion       = "NoRegion"
	unknownProfile = "UnknownProfile"
	badEndpoint    = "BadEndpoint"
	badConfig      = "BadConfiguration"
	bearerRefused  = "BearerOverHTTP"
)

const bearerOverHTTP = bearerVariable + " is set, and a bearer key is not sent over plain http"

// SetupError says why no model can be called at all.
type SetupError struct {
	Failure edge.Failure
	Err     error // what the SDK said, may be nil
}

func (e *SetupError) Error() string {
	if e.Err == nil {
		return "set up bedrock: " + e.Failure.Message
	}
	return fmt.Sprintf("set up bedrock: %s: %v", e.Failure.Message, e.Err)
}

// Unwrap returns what the SDK said.
func (e *SetupError) Unwrap() error { return e.Err }

func setupError(err error, name, format string, args ...any) error {
	return &SetupError{edge.Failure{Name: name, Message: fmt.Sprintf(format, args...)}, err}
}

// New finds region, endpoint and credentials and returns an edge that uses
// them. It calls no model. The error is a *SetupError or ctx's.
func New(ctx context.Context, o Options) (*Edge, error) {
	s, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if _, err := s.credentials(ctx); err != nil {
		return nil, err
	}
	return s.edge(), nil
}

// setup is what the AWS configuration says.
type setup struct {
	Options
	cfg    aws.Config
	bearer bool // a Bedrock API key is used
	client *bedrockruntime.Client
	http   *http.Client
}

// load reads the AWS configuration and builds the client.
func load(ctx context.Context, o Options) (*setup, error) {
	var more []func(*config.LoadOptions) error
	if o.Credentials != nil {
		more = append(more, config.WithCredentialsProvider(o.Credentials))
	}
	cfg, err := LoadConfig(ctx, o.Region, o.Profile, more...)
	if err != nil {
		return nil, err
	}
	cfg.Region = cmp.Or(cfg.Region, arnRegion(o.Model))
	s := &setup{Options: o, cfg: cfg, bearer: os.Getenv(bearerVariable) != ""}
	s.http = HTTPClient(cfg, 0)
	s.client = bedrockruntime.NewFromConfig(cfg, s.configure)
	return s, nil
}

// LoadConfig reads the AWS configuration of this machine, with another region or
// profile where they are given. The error is a *SetupError or ctx's.
func LoadConfig(ctx context.Context, region, profile string, more ...func(*config.LoadOptions) error) (aws.Config, error) {
	// What the SDK logs (a metadata service of an old version, say) belongs to no
	// terminal: what matters of it comes back as an error.
	options := append([]func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}, more...)
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if profile != "" {
		options = append(options, config.WithSharedConfigProfile(profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err := ctx.Err(); err != nil {
		return aws.Config{}, err
	}
	var missing config.SharedConfigProfileNotExistError
	switch {
	case errors.As(err, &missing):
		return aws.Config{}, setupError(nil, unknownProfile, "there is no AWS profile %q", missing.Profile)
	case err != nil:
		return aws.Config{}, setupError(err, badConfig, "the AWS configuration cannot be used")
	}
	return cfg, nil
}

// arnRegion returns the region an ARN names, "" for anything else.
func arnRegion(model string) string {
	if parts := strings.SplitN(model, ":", 6); len(parts) == 6 && parts[0] == "arn" {
		return parts[3]
	}
	return ""
}

// HTTPClient builds a client on the transport of the configuration, which knows
// AWS_CA_BUNDLE and the proxies. It decodes nothing, because bytes are recorded
// as they come, and follows no redirect, because credentials would follow too.
// idle is how many idle connections to a host are kept, 0 for the SDK's number.
func HTTPClient(cfg aws.Config, idle int) *http.Client {
	buildable, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		buildable = awshttp.NewBuildableClient()
	}
	tr := buildable.GetTransport()
	tr.DisableCompression = true
	tr.WriteBufferSize, tr.ReadBufferSize = 32<<10, 16<<10 // most requests and answers in one piece
	if idle > 0 {
		tr.MaxIdleConns, tr.MaxIdleConnsPerHost = idle, idle
	}
	return &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// configure makes the SDK's client do one attempt of exactly what is asked.
func (s *setup) configure(o *bedrockruntime.Options) {
	if s.EndpointURL != "" {
		o.BaseEndpoint = &s.EndpointURL
	}
	o.HTTPClient = transport{s.http}
	o.Retryer = aws.NopRetryer{}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		if err := stack.Serialize.Insert(exactBody(), "OperationSerializer", middleware.After); err != nil {
			return err
		}
		return stack.Finalize.Insert(attemptHeaders(), "Signing", middleware.Before)
	})
}

// exactBody puts the request's own bytes in place of what the SDK serialised,
// before anything measures or signs them.
func exactBody() middleware.SerializeMiddleware {
	return middleware.SerializeMiddlewareFunc("ExactBody", func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (
		middleware.SerializeOutput, middleware.Metadata, error,
	) {
		x, isCall := ctx.Value(exchangeKey{}).(*exchange)
		r, isHTTP := in.Request.(*smithyhttp.Request)
		if !isCall || !isHTTP {
			return middleware.SerializeOutput{}, middleware.Metadata{}, fmt.Errorf("replace request body: not a model call")
		}
		r, err := r.SetStream(bytes.NewReader(x.request))
		if err != nil {
			return middleware.SerializeOutput{}, middleware.Metadata{}, fmt.Errorf("replace request body: %w", err)
		}
		in.Request = r
		return next.HandleSerialize(ctx, in)
	})
}

// attemptHeaders gives all attempts of a call one invocation id and their own
// number, as the SDK's retry loop does: proxies count by them.
func attemptHeaders() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc("AttemptHeaders", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
		middleware.FinalizeOutput, middleware.Metadata, error,
	) {
		x, isCall := ctx.Value(exchangeKey{}).(*exchange)
		if r, isHTTP := in.Request.(*smithyhttp.Request); isCall && isHTTP {
			x.invocation = cmp.Or(x.invocation, r.Header.Get("Amz-Sdk-Invocation-Id"))
			r.Header.Set("Amz-Sdk-Invocation-Id", x.invocation)
			r.Header.Set("Amz-Sdk-Request", "attempt="+strconv.Itoa(x.number)+"; max="+strconv.Itoa(x.retryer.MaxAttempts()))
		}
		return next.HandleFinalize(ctx, in)
	})
}

// endpoint returns the endpoint that was configured, "" for AWS's own.
func (s *setup) endpoint() string { return aws.ToString(s.client.Options().BaseEndpoint) }

// check finds what can be known to fail without asking anybody.
func (s *setup) check() error {
	if s.cfg.Region == "" {
		return setupError(nil, noRegion, "no AWS region is configured")
	}
	custom := s.endpoint()
	if custom == "" {
		return nil
	}
	u, err := url.Parse(custom)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return setupError(nil, badEndpoint, "the endpoint %q is not an http or https URL", custom)
	case s.bearer && u.Scheme == "http":
		return setupError(nil, bearerRefused, "%s, which the endpoint %q uses", bearerOverHTTP, custom)
	}
	return nil
}

// credentials finds credentials within probeTimeout. With a Bedrock API key none
// are needed, and the zero value is returned.
func (s *setup) credentials(ctx context.Context) (aws.Credentials, error) {
	if s.bearer {
		return aws.Credentials{Source: bearerVariable}, nil
	}
	provider := s.cfg.Credentials
	if provider == nil || aws.IsCredentialsProvider(provider, aws.AnonymousCredentials{}) {
		return aws.Credentials{}, setupError(nil, noCredentials, "no AWS credentials were found")
	}
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found, err := provider.Retrieve(probe)
	var session *ssocreds.InvalidTokenError
	switch {
	case ctx.Err() != nil:
		return aws.Credentials{}, ctx.Err()
	case errors.As(err, &session), err != nil && strings.Contains(err.Error(), "SSO"):
		return aws.Credentials{}, setupError(err, expiredSession, "the single sign-on session is over")
	case probe.Err() != nil:
		return aws.Credentials{}, setupError(nil, noCredentials, "no AWS credentials were found within %s", probeTimeout)
	case err != nil && strings.Contains(err.Error(), "no EC2 IMDS role found"): // the last source of the chain
		return aws.Credentials{}, setupError(nil, noCredentials, "no AWS credentials were found in the environment, the profile or this machine's role")
	case err != nil:
		return aws.Credentials{}, setupError(err, noCredentials, "no AWS credentials were found")
	case !found.HasKeys():
		return aws.Credentials{}, setupError(nil, noCredentials, "the AWS credentials from %s hold no keys", found.Source)
	}
	return found, nil
}

func (s *setup) edge() *Edge {
	e := &Edge{
		client: s.client, http: s.http, region: s.cfg.Region, custom: s.endpoint() != "", stream: s.Stream,
		call: cmp.Or(s.CallTimeout, defaultCallTimeout), idle: cmp.Or(s.IdleTimeout, defaultIdleTimeout),
		retryer: newRetryer(cmp.Or(s.MaxAttempts, defaultAttempts)),
		watch:   s.Watch, sleep: s.Sleep, now: s.Now,
	}
	if e.sleep == nil {
		e.sleep = sleep
	}
	if e.now == nil {
		e.now = time.Now
	}
	return e
}

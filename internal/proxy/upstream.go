package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"investigator/internal/bedrock"
)

// BedrockOptions says where Bedrock is and who pays.
type BedrockOptions struct {
	URL             string // "" for the region's own endpoints; http for loopback alone
	Region, Profile string
}

// Bedrock is the real upstream, or what stands in its place at a URL.
type Bedrock struct {
	base   *url.URL // nil: by region and operation
	region string
	creds  aws.CredentialsProvider // nil: a bearer key, or nothing where the upstream is loopback
	bearer string
	client *http.Client
	signer *v4.Signer
}

const (
	bearerVariable = "AWS_BEARER_TOKEN_BEDROCK"
	probeTimeout   = 3 * time.Second // the last source of credentials hangs off EC2
)

// NewBedrock finds region and credentials. Without credentials it passes bearer
// keys of clients; the error says that there is no region, or that the URL
// would carry credentials in the clear.
func NewBedrock(ctx context.Context, o BedrockOptions) (*Bedrock, error) {
	b := &Bedrock{bearer: os.Getenv(bearerVariable), signer: v4.NewSigner()}
	if o.URL != "" {
		u, err := url.Parse(strings.TrimSuffix(o.URL, "/"))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("set up upstream: expected an http or https URL, found %q", o.URL)
		}
		if u.Scheme == "http" && !isLoopback(u.Hostname()) {
			return nil, fmt.Errorf("set up upstream %q: http is for loopback alone, because requests carry credentials; use https", o.URL)
		}
		b.base = u
	}
	cfg, err := bedrock.LoadConfig(ctx, o.Region, o.Profile)
	if err != nil {
		return nil, err
	}
	b.client = bedrock.HTTPClient(cfg, 512)
	b.region = cfg.Region
	if b.region == "" && b.base == nil {
		return nil, errors.New("set up upstream: no AWS region is configured")
	}
	if b.region == "" {
		b.region = "us-east-1"
	}
	b.creds = b.probe(ctx, cfg)
	return b, nil
}

// probe returns the chain of credentials if it has any.
func (b *Bedrock) probe(ctx context.Context, cfg aws.Config) aws.CredentialsProvider {
	if b.bearer != "" || cfg.Credentials == nil || aws.IsCredentialsProvider(cfg.Credentials, aws.AnonymousCredentials{}) {
		return nil
	}
	if b.base != nil && isLoopback(b.base.Hostname()) && os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		return nil // a stand-in on this machine takes none
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if found, err := cfg.Credentials.Retrieve(ctx); err != nil || !found.HasKeys() {
		return nil
	}
	return cfg.Credentials
}

// Signs says how requests are authorised, for people.
func (b *Bedrock) Signs() string {
	switch {
	case b.bearer != "":
		return "with the Bedrock API key of " + bearerVariable
	case b.creds != nil:
		return "with the AWS credentials found here"
	}
	return "with the bearer keys of clients, as there are no AWS credentials here"
}

// Credentials reports whether AWS credentials were found to sign with.
func (b *Bedrock) Credentials() bool { return b.creds != nil }

// Lacks says what is missing where Bedrock will refuse every call that brings no
// bearer key, "" if nothing is. A stand-in on this machine takes any call.
func (b *Bedrock) Lacks() string {
	if b.creds != nil || b.bearer != "" || b.base != nil && isLoopback(b.base.Hostname()) {
		return ""
	}
	return "no AWS credentials were found here, so Bedrock will refuse calls that bring no bearer key: set AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " + bearerVariable
}

// host is the URL of an operation.
func (b *Bedrock) host(path string) (base, service string) {
	service = "bedrock"
	name := "https://bedrock-runtime." + b.region + ".amazonaws.com"
	if strings.HasPrefix(path, "/anthropic/") {
		name, service = "https://bedrock-mantle."+b.region+".api.aws", "bedrock-mantle"
	}
	if b.base != nil {
		return b.base.String(), service
	}
	return name, service
}

// Place implements Upstream: AWS's own URL, wherever the request really went.
func (b *Bedrock) Place(path string) string {
	own := Bedrock{region: b.region}
	base, _ := own.host(path)
	return base + path
}

// Do implements Upstream.
func (b *Bedrock) Do(r *http.Request, body []byte) (*http.Response, error) {
	base, service := b.host(r.URL.EscapedPath())
	u, err := url.Parse(base + r.URL.EscapedPath())
	if err != nil {
		return nil, err
	}
	r.URL, r.Host = u, u.Host
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	if err := b.authorize(r, body, service); err != nil {
		return nil, err
	}
	return b.client.Do(r)
}

func (b *Bedrock) authorize(r *http.Request, body []byte, service string) error {
	if b.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+b.bearer)
		r.Header.Del("X-Api-Key")
		return nil
	}
	if b.creds == nil {
		return nil // a bearer key of the client may be there
	}
	r.Header.Del("Authorization")
	r.Header.Del("X-Api-Key")
	found, err := b.creds.Retrieve(r.Context())
	if err != nil {
		return fmt.Errorf("find credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	return b.signer.SignHTTP(r.Context(), found, r, hex.EncodeToString(sum[:]), service, b.region, time.Now())
}

// outgoing is the request to send on: an allow-list of the client's headers.
// Its signature covers our host and is worth nothing elsewhere; a bearer key is
// kept for an upstream without credentials of its own, unless it is token, which
// is the proxy's and nobody else's.
func outgoing(ctx context.Context, c *call, path, token string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream"+path, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		if forwarded(name) {
			r.Header[name] = values
		}
	}
	if key, isBearer := strings.CutPrefix(c.header.Get("Authorization"), "Bearer "); isBearer && key != token {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if key := c.header.Get("X-Api-Key"); key != "" && key != token {
		r.Header.Set("X-Api-Key", key)
	}
	return r, nil
}

func forwarded(name string) bool {
	switch name {
	case "Content-Type", "Accept", "User-Agent", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "X-Stainless-Retry-Count":
		return true
	}
	return strings.HasPrefix(name, "X-Amzn-Bedrock-")
}

package bedrock

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"

	"investigator/internal/bedrock/bedrocktest"
)

// provider makes a source of credentials of a function.
type provider func(context.Context) (aws.Credentials, error)

func (p provider) Retrieve(ctx context.Context) (aws.Credentials, error) { return p(ctx) }

func TestNewSaysWhatIsMissing(t *testing.T) {
	good := credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")
	for _, c := range []struct {
		name          string
		options       Options
		env           map[string]string
		failure, says string // the name and a part of message and hint
	}{
		{"no credentials", Options{Region: "us-east-1"}, nil, noCredentials, "--model rule"},
		{"no keys in them", Options{Region: "us-east-1", Credentials: provider(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{Source: "Nowhere"}, nil
		})}, nil, noCredentials, "Nowhere"},
		{"anonymous", Options{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}}, nil, noCredentials, "no AWS credentials"},
		{"session over", Options{Region: "us-east-1", Credentials: provider(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, &ssocreds.InvalidTokenError{Err: errors.New("old")}
		})}, nil, expiredSession, "aws sso login"},
		{"no region", Options{Credentials: good}, nil, noRegion, "--region"},
		{"no such profile", Options{Region: "us-east-1", Profile: "nobody"}, nil, unknownProfile, `"nobody"`},
		{"endpoint without scheme", Options{Region: "us-east-1", Credentials: good, EndpointURL: "localhost:1"}, nil, badEndpoint, `"localhost:1"`},
		{"bearer key over http", Options{Region: "us-east-1", EndpointURL: "http://127.0.0.1:1"}, map[string]string{bearerVariable: "ABSKxxx"}, bearerRefused, bearerVariable},
		{"bundle is no file", Options{Region: "us-east-1", Credentials: good}, map[string]string{"AWS_CA_BUNDLE": "no/such/file"}, badConfig, "AWS_CA_BUNDLE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			e, err := New(t.Context(), c.options)
			var setup *SetupError
			if !errors.As(err, &setup) || e != nil || setup.Failure.Name != c.failure || !Unreachable(setup.Failure) {
				t.Fatalf("error %v, expected a *SetupError of %s", err, c.failure)
			}
			message, hint := ExplainError(err)
			if !strings.Contains(message+"\n"+hint, c.says) || hint == "" {
				t.Errorf("message %q, hint %q, expected %q in them", message, hint, c.says)
			}
			if strings.Contains(message+hint+err.Error(), "ABSKxxx") {
				t.Errorf("the key shows in %q", message)
			}
		})
	}
}

// TestSlowCredentials: a source that hangs, as the metadata service does off
// EC2, is given up on.
func TestSlowCredentials(t *testing.T) {
	hang := provider(func(ctx context.Context) (aws.Credentials, error) {
		<-ctx.Done()
		return aws.Credentials{}, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, Options{Region: "us-east-1", Credentials: hang}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err := New(t.Context(), Options{Region: "us-east-1", Credentials: hang})
	if err == nil || !strings.Contains(err.Error(), "within 2s") {
		t.Errorf("error %v", err)
	}
}

func TestNewReadsTheEnvironment(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello, RequireAuth: true})
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", s.URL)
	e := newEdge(t, Options{})
	if r := do(t, e, modelCall(t, `{}`)); r.Failed || !strings.HasPrefix(r.Wire.URL, "https://bedrock-runtime.eu-central-1.amazonaws.com/") {
		t.Errorf("%s from %s", r.Body, r.Wire.URL)
	}
	if auth := s.Requests()[0].Header.Get("Authorization"); !strings.Contains(auth, "AKIDENV") || !strings.Contains(auth, "/eu-central-1/bedrock/") {
		t.Errorf("signed as %q", auth)
	}
}

func TestProfile(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello})
	t.Setenv("AWS_CONFIG_FILE", writeFile(t, "config", []byte("[profile team]\nregion = us-west-2\naws_access_key_id = AKIDTEAM\naws_secret_access_key = s\n")))
	e := newEdge(t, Options{Profile: "team", EndpointURL: s.URL})
	if r := do(t, e, modelCall(t, `{}`)); r.Failed || e.Region() != "us-west-2" {
		t.Errorf("%s in %s", r.Body, e.Region())
	}
}

func TestRegionOfAnARN(t *testing.T) {
	model := "arn:aws:bedrock:ap-northeast-1:123456789012:inference-profile/jp.anthropic.claude-sonnet-4-6"
	creds := credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")
	if e := newEdge(t, Options{Model: model, Credentials: creds}); e.Region() != "ap-northeast-1" {
		t.Errorf("region %q", e.Region())
	}
	if e := newEdge(t, Options{Model: model, Region: "us-east-1", Credentials: creds}); e.Region() != "us-east-1" {
		t.Errorf("region %q", e.Region())
	}
}

// TestBearerKey: a Bedrock API key needs no other credentials and goes over TLS.
func TestBearerKey(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{TLS: true, Script: hello})
	t.Setenv(bearerVariable, "ABSKxxx")
	t.Setenv("AWS_CA_BUNDLE", writeFile(t, "ca.pem", s.CA))
	r := do(t, newEdge(t, Options{Region: "us-east-1", EndpointURL: s.URL, Stream: true}), modelCall(t, `{}`))
	if auth := s.Requests()[0].Header.Get("Authorization"); r.Failed || auth != "Bearer ABSKxxx" {
		t.Errorf("%s, authorization %q", r.Body, auth)
	}
	if s.Requests()[0].Proto != "HTTP/2.0" {
		t.Errorf("spoke %s over TLS", s.Requests()[0].Proto)
	}
}

// TestCredentialsThatEnd: credentials that cannot be renewed in the middle of a
// run are a failure of the call, worded without what the SDK says of files.
func TestCredentialsThatEnd(t *testing.T) {
	calls := 0
	o := options("http://127.0.0.1:1", true)
	o.Credentials = provider(func(context.Context) (aws.Credentials, error) {
		if calls++; calls > 1 {
			return aws.Credentials{}, errors.New("open /home/someone/.aws/sso/cache/x.json: no such file")
		}
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "s", CanExpire: true}, nil
	})
	r := do(t, newEdge(t, o), modelCall(t, `{}`))
	if !r.Failed || !strings.Contains(string(r.Body), `"name":"CredentialsError"`) || strings.Contains(string(r.Body), "someone") || len(r.Wire.Attempts) != 1 {
		t.Errorf("%d attempts: %s", len(r.Wire.Attempts), r.Body)
	}
}

// TestSDKLogsNothing: what the SDK has to say while it looks for credentials
// does not reach the terminal beside our own words.
func TestSDKLogsNothing(t *testing.T) {
	old := serveRaw(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", old) // a metadata service that makes the SDK warn of IMDSv1
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	_, err = New(t.Context(), Options{Region: "us-east-1"})
	os.Stderr = stderr
	w.Close()
	said, readErr := io.ReadAll(r)
	if readErr != nil || len(said) > 0 {
		t.Errorf("on standard error: %q, error %v", said, readErr)
	}
	if err == nil || strings.Contains(err.Error(), "IMDS") {
		t.Errorf("error %v, expected one in plain words", err)
	}
}

// TestProxyIsKept: the client is built on the configuration's own transport, so
// HTTPS_PROXY and NO_PROXY count, as AWS_CA_BUNDLE does (TestCABundle).
func TestProxyIsKept(t *testing.T) {
	e := newEdge(t, options("", true))
	tr, ok := e.http.Transport.(*http.Transport)
	if !ok || tr.Proxy == nil {
		t.Fatalf("the transport %T has no proxy function", e.http.Transport)
	}
	proxy := func(f func(*http.Request) (*url.URL, error)) uintptr { return reflect.ValueOf(f).Pointer() }
	if proxy(tr.Proxy) != proxy(http.ProxyFromEnvironment) {
		t.Error("the proxy is not taken from the environment")
	}
}

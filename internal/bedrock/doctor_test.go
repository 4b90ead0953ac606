package bedrock

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
)

// findings lists the checks by name, with "!" where one failed.
func findings(checks []Check) (names []string) {
	for _, c := range checks {
		if c.OK {
			names = append(names, c.Name)
		} else {
			names = append(names, "!"+c.Name)
		}
	}
	return names
}

func TestDoctorOnAGoodDay(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		s := bedrocktest.New(t, bedrocktest.Options{Script: hello})
		o := options(s.URL, stream)
		o.Model = testModel
		checks := Doctor(t.Context(), o, true)
		if diff := cmp.Diff([]string{"region", "model", "credentials", "endpoint", "call"}, findings(checks)); diff != "" {
			t.Errorf("(-want +got):\n%s\n%+v", diff, checks)
		}
		calls := s.Requests()
		if got := string(calls[len(calls)-1].Body); !strings.Contains(got, `"maxTokens":1`) || len(calls) != 2 {
			t.Errorf("%d requests, the last with body %s", len(calls), got)
		}
		if first := calls[0]; first.Method != "GET" || first.Header.Get("Authorization") != "" {
			t.Errorf("the endpoint was probed by %s with %q", first.Method, first.Header.Get("Authorization"))
		}
		if n := len(Doctor(t.Context(), o, false)); n != 4 {
			t.Errorf("%d checks without a call", n)
		}
	})
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello})
	page := serveRaw(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") })
	refusing := bedrocktest.New(t, bedrocktest.Options{Script: hello, Faults: []bedrocktest.Fault{{Name: "access-denied"}}})
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   []string
		says   string // in the detail or hint of the check that failed first
	}{
		{"no region", func(o *Options) { o.Region = "" }, []string{"!region", "model", "credentials", "endpoint", "!call"}, "AWS_REGION"},
		{"no credentials", func(o *Options) { o.Credentials = nil }, []string{"region", "model", "!credentials", "endpoint", "!call"}, "aws sso login"},
		{"nobody there", func(o *Options) { o.EndpointURL = "http://127.0.0.1:1" }, []string{"region", "model", "credentials", "!endpoint", "!call"}, "refused"},
		{"a page there", func(o *Options) { o.EndpointURL = page }, []string{"region", "model", "credentials", "!endpoint", "!call"}, "HTTPS_PROXY"},
		{"no model", func(o *Options) { o.Model = "claude" }, []string{"region", "!model", "credentials", "endpoint", "!call"}, "inference profile"},
		{"no access", func(o *Options) { o.EndpointURL = refusing.URL }, []string{"region", "model", "credentials", "endpoint", "!call"}, "Model access"},
		{"no profile", func(o *Options) { o.Profile = "nobody" }, []string{"!configuration"}, "list-profiles"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(s.URL, true)
			o.Model = testModel
			c.change(&o)
			checks := Doctor(t.Context(), o, true)
			if diff := cmp.Diff(c.want, findings(checks)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, check := range checks {
				if check.OK {
					continue
				}
				if !strings.Contains(check.Detail+check.Hint, c.says) {
					t.Errorf("says %q and %q, expected %q", check.Detail, check.Hint, c.says)
				}
				break
			}
		})
	}
}

func TestDoctorResolvesAWSsEndpoint(t *testing.T) {
	o := options("", true)
	o.Region = "eu-west-1"
	s, err := load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.target(t.Context()); err != nil || got != "https://bedrock-runtime.eu-west-1.amazonaws.com" {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestModelKind(t *testing.T) {
	for model, want := range map[string]string{
		"anthropic.claude-sonnet-4-5-20250929-v1:0":                           "model",
		"global.anthropic.claude-opus-4-6-v1":                                 "inference profile",
		"us.amazon.nova-2-lite-v1:0":                                          "inference profile",
		"arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-x": "ARN of inference profile",
		"arn:aws:bedrock:us-east-1:1:application-inference-profile/abc":       "ARN of application inference profile",
		"arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/x.y":          "ARN of foundation model",
		"arn:aws:s3:::bucket/key":                                             "", "arn:aws:bedrock:us-east-1:1:": "",
		"claude": "", "": "", "a b.c": "", ".x": "", "x.": "", "a/b.c": "", "../../x.y": "",
	} {
		if got := modelKind(model); got != want {
			t.Errorf("%q is %q, expected %q", model, got, want)
		}
	}
}

// TestElsewhere: a model named for another region is remarked on, because the
// service's own answer is that the identifier is invalid.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct{ model, region, want string }{
		{"us.anthropic.claude-x", "us-east-1", ""},
		{"us.anthropic.claude-x", "ca-central-1", ""},
		{"us.anthropic.claude-x", "eu-west-1", "us. profiles are not known to be called from eu-west-1"},
		{"eu.anthropic.claude-x", "us-east-1", "eu. profiles"},
		{"jp.anthropic.claude-x", "ap-southeast-2", "jp. profiles"},
		{"au.anthropic.claude-x", "ap-southeast-2", ""},
		{"apac.amazon.nova-lite-v1:0", "ap-south-1", ""},
		{"global.anthropic.claude-x", "sa-east-1", ""},
		{"anthropic.claude-x", "eu-west-1", ""},
		{"us.anthropic.claude-x", "", ""},
		{"arn:aws:bedrock:us-east-1:1:inference-profile/us.x.y", "us-east-1", ""},
		{"arn:aws:bedrock:us-east-1:1:inference-profile/us.x.y", "us-west-2", "the ARN is of us-east-1, and calls go to us-west-2"},
	} {
		got := elsewhere(c.model, c.region)
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s in %q: %q, expected %q", c.model, c.region, got, c.want)
		}
		if check := modelCheck(c.model, c.region); !check.OK || !strings.Contains(check.Detail, c.want) {
			t.Errorf("%s in %q: %+v, expected %q in it", c.model, c.region, check, c.want)
		}
	}
}

// TestDoctorWithoutARegion says that the endpoint is not looked for instead of
// quoting the SDK's resolver.
func TestDoctorWithoutARegion(t *testing.T) {
	o := options("", true)
	o.Region, o.Model = "", testModel
	checks := Doctor(t.Context(), o, false)
	if diff := cmp.Diff([]string{"!region", "model", "credentials", "!endpoint"}, findings(checks)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := checks[3].Detail; got != "not looked for, because no region says where it is" {
		t.Errorf("endpoint: %q", got)
	}
}

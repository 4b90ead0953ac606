package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestAgentConfig: whatever an SDK would find by itself counts, from whatever
// source, and a machine without any has none. Nobody is asked, whom a replay could
// wait for: neither the metadata service nor a name server.
func TestAgentConfig(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the metadata service is asked") }))
	defer metadata.Close()
	resolver := net.DefaultResolver
	defer func() { net.DefaultResolver = resolver }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name server is asked")
		return nil, errors.New("no network")
	}}
	const keys = "aws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = x\n"
	for _, test := range []struct {
		name, file string
		env        map[string]string
		want       AgentConfig
	}{
		{"nothing", "", nil, AgentConfig{}},
		{"keys", "", map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, AgentConfig{Credentials: true}},
		{"regions of the environment are no profile's", "", map[string]string{"AWS_REGION": "eu-west-1"}, AgentConfig{}},
		{"default profile", "[default]\nregion = eu-west-1\n" + keys, nil, AgentConfig{"eu-west-1", true}},
		{"a region alone", "[default]\nregion = eu-west-1\n", nil, AgentConfig{"eu-west-1", false}},
		{"named profile", "[profile p]\nregion = eu-west-3\n" + keys, map[string]string{"AWS_PROFILE": "p"}, AgentConfig{"eu-west-3", true}},
		{"single sign-on", "[default]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n[sso-session s]\nsso_region = eu-west-1\nsso_start_url = https://x.invalid\n", nil, AgentConfig{"", true}},
		{"a role that asks for a code", "[default]\nregion = eu-west-1\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = p\nmfa_serial = arn:aws:iam::1:mfa/m\n[profile p]\n" + keys, nil, AgentConfig{"eu-west-1", true}},
		{"process", "[default]\ncredential_process = false\n", nil, AgentConfig{"", true}},
		{"web identity", "", map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "t", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}, AgentConfig{"", true}},
		{"container", "", map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}, AgentConfig{"", true}},
		{"somebody who gives keys", "[default]\nregion = eu-west-1\n", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://keys.invalid/x"}, AgentConfig{"eu-west-1", true}},
		{"defaults of the machine", "[default]\ndefaults_mode = auto\nregion = eu-west-1\n", nil, AgentConfig{"eu-west-1", false}},
		{"defaults of the machine, by variable", "", map[string]string{"AWS_DEFAULTS_MODE": "auto"}, AgentConfig{}},
		{"a profile that is not there", "", map[string]string{"AWS_PROFILE": "p"}, AgentConfig{"", true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
				"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_DEFAULTS_MODE"} {
				t.Setenv(name, test.env[name])
			}
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
			t.Setenv("AWS_CONFIG_FILE", file)
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
			if got := FindAgentConfig(t.Context()); got != test.want {
				t.Errorf("found %+v, expected %+v", got, test.want)
			}
		})
	}
}

// TestLacks: without anything to sign with, Bedrock's own endpoint is warned of,
// and a stand-in on this machine is not.
func TestLacks(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", bearerVariable} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, test := range []struct {
		url, bearer string
		lacks       bool
	}{{"", "", true}, {"https://vpce.invalid", "", true}, {"http://127.0.0.1:1", "", false}, {"", "key", false}} {
		t.Setenv(bearerVariable, test.bearer)
		b, err := NewBedrock(t.Context(), BedrockOptions{URL: test.url, Region: "us-east-1"})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Lacks() != ""; got != test.lacks {
			t.Errorf("%+v: lacks %q", test, b.Lacks())
		}
	}
}

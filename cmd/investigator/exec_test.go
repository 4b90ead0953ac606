package main

import (
	"slices"
	"strings"
	"testing"

	"investigator/internal/proxy"
)

// TestChildEnv: an agent gets what its client cannot do without and does not
// find, under every name that clients read, and keeps what it has: its tools
// may call AWS as well.
func TestChildEnv(t *testing.T) {
	const dummy = "investigator"
	for _, test := range []struct {
		name   string
		env    []string
		own    proxy.AgentConfig
		region string
		want   map[string]string
	}{
		{"nothing", nil, proxy.AgentConfig{}, "",
			map[string]string{"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": dummy, "AWS_SECRET_ACCESS_KEY": dummy, "OPENAI_API_KEY": dummy}},
		{"boto3 reads one variable alone", []string{"AWS_REGION=eu-west-1"}, proxy.AgentConfig{}, "",
			map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1"}},
		{"and others the other", []string{"AWS_DEFAULT_REGION=eu-west-1"}, proxy.AgentConfig{}, "",
			map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1"}},
		{"both stay as they are", []string{"AWS_REGION=eu-west-1", "AWS_DEFAULT_REGION=eu-west-2"}, proxy.AgentConfig{Region: "eu-west-3"}, "",
			map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}},
		{"the profile's", nil, proxy.AgentConfig{Region: "eu-west-3"}, "eu-west-1",
			map[string]string{"AWS_REGION": "eu-west-3", "AWS_DEFAULT_REGION": "eu-west-3"}},
		{"the flag's", nil, proxy.AgentConfig{}, "eu-west-1", map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1"}},
		{"credentials in files", []string{"AWS_SESSION_TOKEN=t"}, proxy.AgentConfig{Credentials: true}, "",
			map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "t"}},
		{"half of a key", []string{"AWS_ACCESS_KEY_ID=a", "AWS_SESSION_TOKEN=t"}, proxy.AgentConfig{}, "",
			map[string]string{"AWS_ACCESS_KEY_ID": dummy, "AWS_SECRET_ACCESS_KEY": dummy, "AWS_SESSION_TOKEN": ""}},
		{"bearer keys and web proxies", []string{"AWS_BEARER_TOKEN_BEDROCK=b", "NO_PROXY=x.invalid", "OPENAI_API_KEY=k"}, proxy.AgentConfig{}, "",
			map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "", "NO_PROXY": "127.0.0.1,localhost,x.invalid", "no_proxy": "127.0.0.1,localhost", "OPENAI_API_KEY": "k"}},
	} {
		env := childEnv(append([]string{"PATH=p"}, test.env...), "http://127.0.0.1:1", test.own, test.region)
		slices.Sort(env)
		for name, want := range test.want {
			var got []string
			for _, v := range env {
				if value, is := strings.CutPrefix(v, name+"="); is {
					got = append(got, value)
				}
			}
			if want == "" && got == nil || len(got) == 1 && got[0] == want {
				continue
			}
			t.Errorf("%s: %s is %q, expected %q", test.name, name, got, want)
		}
		if !slices.Contains(env, "PATH=p") || !slices.Contains(env, "OPENAI_BASE_URL=http://127.0.0.1:1/openai/v1") {
			t.Errorf("%s: %q", test.name, env)
		}
	}
}

package proxy

import (
	"context"
	"errors"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"

	"investigator/internal/bedrock"
)

// AgentConfig is what an agent's SDK finds by itself in the environment and in
// the shared files. Who runs an agent adds what is missing and nothing else: the
// agent's tools may call AWS as well.
type AgentConfig struct {
	Region      string // the profile's; "" if it names none
	Credentials bool   // there is a source of credentials. That they are good is not known
}

// FindAgentConfig reads what is there and asks nobody. So a machine's own role
// counts for nothing: only the network knows of it. Files that cannot be read,
// or a profile that does not exist, are the agent's to complain about.
func FindAgentConfig(ctx context.Context) AgentConfig {
	// Two settings have the SDK ask while it reads: which defaults to take is asked
	// of the machine's metadata service, and the name server for who gives keys.
	quiet := []func(*config.LoadOptions) error{config.WithDefaultsMode(aws.DefaultsModeLegacy), config.WithAssumeRoleCredentialOptions(noCode)}
	served := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != ""
	if served {
		quiet = append(quiet, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := bedrock.LoadConfig(ctx, "", "", quiet...)
	if err != nil {
		return AgentConfig{Credentials: true}
	}
	found := AgentConfig{Credentials: served || cfg.Credentials != nil && !aws.IsCredentialsProvider(cfg.Credentials, (*ec2rolecreds.Provider)(nil))}
	for _, source := range cfg.ConfigSources {
		if profile, is := source.(config.SharedConfig); is {
			found.Region = profile.Region
		}
	}
	return found
}

// noCode lets a profile be read whose role wants a code from its user: the SDK
// reads none without somebody to ask for it, whom nobody calls here.
func noCode(o *stscreds.AssumeRoleOptions) {
	o.TokenProvider = func() (string, error) { return "", errors.New("nobody is asked for a code") }
}

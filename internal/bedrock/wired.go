package bedrock

import (
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
)

// Wired returns an edge whose SDK talks to rt instead of a network: a cassette
// that serves its recorded exchanges. It reads no AWS configuration and signs
// with dummy keys; the region only completes a URL that is never resolved.
func Wired(rt http.RoundTripper, stream bool) *Edge {
	s := &setup{
		Options: Options{Stream: stream, MaxAttempts: 1},
		cfg:     aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("replay", "replay", "")},
		http:    &http.Client{Transport: rt},
	}
	s.client = bedrockruntime.NewFromConfig(s.cfg, s.configure)
	return s.edge()
}

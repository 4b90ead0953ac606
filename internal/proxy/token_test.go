package proxy

import (
	"net/http"
	"testing"

	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// A key that opens the proxy, or that a client sends beside it, is not sent on
// to an upstream that it was not made for.
func TestKeysGoNoFurtherThanTheyShould(t *testing.T) {
	const token, own = "open sesame", "the client's own"
	for name, tt := range map[string]struct{ header, sent, want string }{
		"token as bearer key":  {"Authorization", "Bearer " + token, ""},
		"token as api key":     {"X-Api-Key", token, ""},
		"a bearer key":         {"Authorization", "Bearer " + own, "Bearer " + own},
		"an api key":           {"X-Api-Key", own, own},
		"a signature for here": {"Authorization", "AWS4-HMAC-SHA256 Credential=" + token + "/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := http.Header{}
			up := upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
				seen = r.Header.Clone()
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
			})
			create := func(_ int, h recorder.Header) (*recorder.Writer, error) { return recorder.NewMemory(h) }
			p := start(t, Options{Record: &RecordOptions{Create: create}, Upstream: up, Token: token})
			code, _, text := post(t, p.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`,
				"X-Investigator-Token", token, tt.header, tt.sent)
			if code != 200 || seen.Get(tt.header) != tt.want {
				t.Errorf("%d %s: the upstream got %q, want %q", code, text, seen.Get(tt.header), tt.want)
			}
		})
	}
}

// With a Bedrock API key of its own the proxy sends that alone.
func TestTheProxysOwnKeyIsSentAlone(t *testing.T) {
	b := &Bedrock{bearer: "ours"}
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "theirs")
	if err := b.authorize(r, nil, "bedrock"); err != nil || r.Header.Get("X-Api-Key") != "" || r.Header.Get("Authorization") != "Bearer ours" {
		t.Errorf("%v %v", r.Header, err)
	}
}

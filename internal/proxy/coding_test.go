package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"investigator/internal/foreign"
	"investigator/internal/ledger"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestContentCoding: the client gets what came; the cassette holds it as text
// and without its secrets, or not at all.
func TestContentCoding(t *testing.T) {
	const key = "AKIAIOSFODNN7EXAMPLE"
	text := strings.Replace(hello, "hello", "hello "+key, 1)
	whole := gzipped(t, text)
	for name, c := range map[string]struct {
		coding string
		body   []byte
		want   string // in what the cassette keeps
		failed bool
	}{
		"gzip":            {"gzip", whole, "[removed: aws access key id]", false},
		"in capitals":     {"GZIP", whole, "[removed: aws access key id]", false},
		"by its old name": {"x-gzip", whole, "[removed: aws access key id]", false},
		"identity":        {"identity", []byte(text), "[removed: aws access key id]", false},
		"cut off":         {"gzip", whole[:len(whole)-9], "gzip is cut off or damaged", true},
		"no gzip":         {"gzip", []byte(text), "says that it is gzip and is not", true},
		"an unknown one":  {"br", []byte(text), `content coding \\\"br\\\"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachPlace(t, func(t *testing.T, durable bool) {
				p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
					r := response(200, "", foreign.Encoded{ContentType: "application/json", Body: c.body})
					r.Header.Set("Content-Encoding", c.coding)
					return r, nil
				}), func(o *RecordOptions) { o.Durable = durable })
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/model/m/converse", strings.NewReader(`{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Accept-Encoding", "identity") // or Go's client decodes it
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.Equal(got, c.body) || resp.Header.Get("Content-Encoding") != c.coding {
					t.Errorf("client: coding %q, %q, error %v", resp.Header.Get("Content-Encoding"), got, err)
				}
				recorded := p.end().Recorded[0]
				raw, err := os.ReadFile(recorded)
				if err != nil || bytes.Contains(raw, []byte(key)) || bytes.Contains(raw, whole[10:30]) || !bytes.Contains(raw, []byte(c.want)) {
					t.Errorf("cassette: %s, error %v", raw, err)
				}
				e, err := open(t, recorded).Event(2)
				if failed := e.Type == ledger.ModelFailed; err != nil || failed != c.failed {
					t.Errorf("event 2: %s, error %v", e.Type, err)
				}
			})
		})
	}
}

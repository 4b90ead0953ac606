package scrub

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"investigator/internal/ledger"
)

func TestScrub(t *testing.T) {
	secret := strings.Repeat("wJalrXUtnF", 4)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":               {`{"a":1}`, `{"a":1}`},
		"access key":            {"id AKIAIOSFODNN7EXAMPLE.", "id [removed: aws access key id]."},
		"session key":           {"ASIAIOSFODNN7EXAMPLE", "[removed: aws access key id]"},
		"after an escape":       {`"x\nAKIAIOSFODNN7EXAMPLE\n"`, `"x\n[removed: aws access key id]\n"`},
		"two beside another":    {"AKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLE", "[removed: aws access key id] [removed: aws access key id]"},
		"a longer word":         {"AKIAIOSFODNN7EXAMPLEANDMORE", "AKIAIOSFODNN7EXAMPLEANDMORE"},
		"inside a word":         {"XAKIAIOSFODNN7EXAMPLE", "XAKIAIOSFODNN7EXAMPLE"},
		"bedrock key":           {"ABSK" + secret + "==", "[removed: bedrock api key]"},
		"short bedrock key":     {"bedrock-api-key-" + secret, "[removed: bedrock api key]"},
		"presigned":             {"https://b/k?X-Amz-Credential=AKIDEXAMPLE%2F2026&X-Amz-Signature=00af&x=1", "https://b/k?X-Amz-Credential=[removed: aws credential scope]%2F2026&X-Amz-Signature=[removed: aws signature]&x=1"},
		"token in a URL":        {"?x-amz-security-token=IQoJb3JpZ2lu%2F%2F&y=1", "?x-amz-security-token=[removed: aws session token]&y=1"},
		"token in JSON":         {`{"X-Amz-Security-Token": "TOKENEXAMPLE"}`, `{"X-Amz-Security-Token": "[removed: aws session token]"}`},
		"token in JSON twice":   {`"{\"aws_session_token\":\"TOKENEXAMPLE\"}"`, `"{\"aws_session_token\":\"[removed: aws session token]\"}"`},
		"secret in ini":         {"aws_secret_access_key = " + secret + "\n", "aws_secret_access_key = [removed: aws secret access key]\n"},
		"secret in JSON":        {`{"SecretAccessKey":"` + secret + `"}`, `{"SecretAccessKey":"[removed: aws secret access key]"}`},
		"secret in env":         {"AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SECRET_ACCESS_KEY=[removed: aws secret access key]"},
		"a digest, no secret":   {"sha1 = " + secret, "sha1 = " + secret},
		"bearer":                {"Authorization: Bearer abcdefghijklmnopqrst", "Authorization: Bearer [removed: bearer token]"},
		"bearer alone":          {"sent Bearer abc1efghijklmnopqrstu", "sent Bearer [removed: bearer token]"},
		"bearer in JSON":        {`{"Authorization":"Bearer opaqueopaque"}`, `{"Authorization":"Bearer [removed: bearer token]"}`},
		"basic":                 {"authorization: Basic dXNlcjpwYXNz", "authorization: Basic [removed: basic credentials]"},
		"key in a URL":          {"?k%3DAKIAIOSFODNN7EXAMPLE&x", "?k%3D[removed: aws access key id]&x"},
		"key after a unicode":   {`"\u0026AKIAIOSFODNN7EXAMPLE"`, `"\u0026[removed: aws access key id]"`},
		"key after a dash":      {"user-ASIAIOSFODNN7EXAMPLE", "user-[removed: aws access key id]"},
		"answer of STS":         {`{"SessionToken": "` + strings.Repeat("IQoJb3JpZ2", 8) + `"}`, `{"SessionToken": "[removed: aws session token]"}`},
		"bearer in prose":       {"the bearer of bad news", "the bearer of bad news"},
		"api key":               {`"x-api-key": "KEYEXAMPLE"`, `"x-api-key": "[removed: api key]"`},
		"web token":             {"t=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "t=[removed: json web token]"},
		"private key":           {"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END", "-----BEGIN RSA PRIVATE KEY-----[removed: private key]-----END"},
		"private key, escaped":  {`"-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END"`, `"-----BEGIN PRIVATE KEY-----[removed: private key]-----END"`},
		"private key, indented": {`"-----BEGIN PRIVATE KEY-----\n\tMIIEpAIBAAKCAQEA\n\t-----END"`, `"-----BEGIN PRIVATE KEY-----[removed: private key]-----END"`},
		"signature header":      {"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/2026/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00", "AWS4-HMAC-SHA256 Credential=[removed: aws credential scope]/2026/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=[removed: aws signature]"},
		"next line in JSON":     {`{"out":"x-api-key:\nauthorization: Basic dXNlcjpwYXNz"}`, `{"out":"x-api-key:\nauthorization: Basic [removed: basic credentials]"}`},
		"next line":             {"x-api-key:\nauthorization: none", "x-api-key:\nauthorization: none"},
		"colour":                {`{"out":"X-Amz-Credential=\u001b[0m"}`, `{"out":"X-Amz-Credential=\u001b[0m"}`},
		"behind an escape":      {`{"out":"x-api-key: \u001bKEYEXAMPLE"}`, `{"out":"x-api-key: \u001b[removed: api key]"}`},
		"behind a tab":          {"x-api-key:\tKEYEXAMPLE", "x-api-key:\t[removed: api key]"},
		"behind a tab in JSON":  {`{"out":"x-api-key:\tKEYEXAMPLE"}`, `{"out":"x-api-key:\t[removed: api key]"}`},
		"deep in JSON":          {`{"a":"{\\\"x-api-key\\\":\\\"KEYEXAMPLE\\\"}"}`, `{"a":"{\\\"x-api-key\\\":\\\"[removed: api key]\\\"}"}`},
		"b of an escape":        {`{"a":"\bedrock-api-key-` + secret + `"}`, `{"a":"\b[removed: bedrock api key]"}`},
		"a number":              {`{"x-api-key":12345678.5e+10,"b":1}`, `{"x-api-key":"[removed: api key]","b":1}`},
		"a number in a text":    {`{"a":"{\"x-api-key\": -12345678, \"b\":1}"}`, `{"a":"{\"x-api-key\": \"[removed: api key]\", \"b\":1}"}`},
		"null":                  {`{"X-Amz-Credential":null}`, `{"X-Amz-Credential":"[removed: aws credential scope]"}`},
		"false":                 {`{"X-Amz-Signature":false}`, `{"X-Amz-Signature":"[removed: aws signature]"}`},
		"a decimal":             {`{"X-Amz-Credential" : 1234.5}`, `{"X-Amz-Credential" : "[removed: aws credential scope]"}`},
		"null in a name":        {`{"x-amz-credential\\":null}`, `{"x-amz-credential\\":"[removed: aws credential scope]"}`},
		"a colon in a text":     {`{"a":": AKIAIOSFODNN7EXAMPLE"}`, `{"a":": [removed: aws access key id]"}`},
		"signature in prose":    {"the signature=ab of a gem", "the signature=ab of a gem"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.text
			got, n := Scrub([]byte(c.text))
			if string(got) != c.want || c.text != before {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if removed := n > 0; removed != (c.text != c.want) || removed != (Find([]byte(c.text)) != "") {
				t.Errorf("%d removed, Find says %q", n, Find([]byte(c.text)))
			}
			if strings.HasPrefix(c.text, `{`) && !json.Valid(got) {
				t.Errorf("no longer JSON: %s", got)
			}
		})
	}
}

// Ordinary text of an investigation stays as it is.
func TestOrdinaryTextIsKept(t *testing.T) {
	for _, text := range []string{
		"", "bearer responsibilities are described in the handbook", "the token bearer undifferentiated-throughput pool",
		"commit 4be1d0c9a8f7e6d5c4b3a2918f7e6d5c4b3a2918", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7", "550e8400-e29b-41d4-a716-446655440000",
		"arn:aws:iam::123456789012:role/AKIARole", "AKIA is how access key ids begin", "ASIA-PACIFIC-SOUTHEAST-REGION", "LEAKIAOFTHEWHOLEPOOLNOW",
		"signature=0xdeadbeef of the frame", "JWT expired: exp=1768435200", "eyJhbGciOiJIUzI1NiJ9 alone is a header",
		"session token refreshed, session_token: expired", "SecretAccessKey is missing", "aws_secret_access_key not set", "private key rotated",
		"-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n-----END CERTIFICATE-----",
		"credential=vault signing off", "Credential scope should be valid", "authorization: denied for role reader", "Authorization failed: bearer missing",
		"x-amzn-requestid: 7a62c49f-347e-4fc4-9331-6e8e0b1f4a5b", "x-api-key: missing", "ABSK", "bedrock-api-key-rotation",
		`{"deploys":[{"at":"2026-01-15T01:55:00Z","change":"pool size 50 -> 10","id":"v841"}]}`,
		"02:03:14 payments-db pool exhausted: 10/10 in use, 137 waiting", strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", 40),
	} {
		if got, n := Scrub([]byte(text)); n != 0 || string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// The fault that docker/docker-agent#1091 reports: credentials in headers and
// bodies of a recording.
func TestRecordedHeadersAndOutput(t *testing.T) {
	got, _ := Scrub([]byte(`{"headers":{"authorization":"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00",` +
		`"x-amz-security-token":"TOKENEXAMPLE","x-api-key":"KEYEXAMPLE"},"toolStdout":"url https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIDEXAMPLE%2F20260101&X-Amz-Signature=00"}`))
	for _, secret := range []string{"TOKENEXAMPLE", "KEYEXAMPLE", "Signature=00", "AKIDEXAMPLE"} {
		if bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s is left in %s", secret, got)
		}
	}
	if !json.Valid(got) {
		t.Errorf("no longer JSON: %s", got)
	}
}

// FuzzScrub: nothing that Find finds is left, a second pass changes nothing,
// and JSON stays JSON.
func FuzzScrub(f *testing.F) {
	f.Add([]byte(`{"k":"AKIAIOSFODNN7EXAMPLE"}`))
	f.Add([]byte("x-api-key: bearer AKIAIOSFODNN7EXAMPLE"))
	f.Add([]byte(`X-Amz-Signature=Credential=AAAA signature=00signature=11`))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAAAAAAAAAA\\n\\n"))
	f.Add([]byte(`{"k":"x-api-key:\nauthorization: b"}`))
	f.Add([]byte(`{"k":"X-Amz-Credential=\u001b[0m","x-amz-credential":null,"X-Amz-Signature":12.5}`))
	f.Add([]byte("aws_secret_key=" + strings.Repeat("A", 40) + "=" + strings.Repeat("A", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		once, n := Scrub(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was modified")
		}
		if kind := Find(once); kind != "" {
			t.Fatalf("%s is left in %q, scrubbed from %q", kind, once, b)
		}
		if twice, again := Scrub(once); again != 0 || !bytes.Equal(once, twice) {
			t.Fatalf("a second pass removed %d from %q", again, once)
		}
		if n == 0 && !bytes.Equal(once, b) {
			t.Fatal("changed without removing")
		}
		if json.Valid(b) && !json.Valid(once) {
			t.Fatalf("%q became %q, which is no JSON", b, once)
		}
	})
}

func BenchmarkScrubClean(b *testing.B) {
	text := []byte(strings.Repeat("02:03:14 checkout payments-db pool exhausted, token bucket empty\n", 160))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Scrub(text)
	}
}

// FuzzScrubQuoted: what is a secret in a text is found in the JSON of the text, and
// in the JSON of that.
func FuzzScrubQuoted(f *testing.F) {
	f.Add("-----BEGIN PRIVATE KEY-----\n\tMIIEpAIBAAKCAQEA\r\n")
	f.Add("x-api-key:\tKEYEXAMPLE\nX-Amz-Credential=\"\x1b[0mAKIDEXAMPLE\" \\bedrock-api-key-" + strings.Repeat("A", 24))
	f.Add("{\"aws_secret_key\": \"" + strings.Repeat("A", 40) + "\"}\u2028Authorization: Bearer abcdefghij")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		once := ledger.AppendString(nil, text)
		twice := ledger.AppendString(nil, string(once))
		for depth, quoted := range [][]byte{once, twice} {
			clean, _ := Scrub(quoted)
			back := string(clean)
			for range depth + 1 {
				if err := json.Unmarshal([]byte(back), &back); err != nil {
					t.Fatalf("%s became %s: %v", quoted, clean, err)
				}
			}
			if kind := Find([]byte(back)); kind != "" {
				t.Fatalf("%s is left in %q, scrubbed as %s", kind, back, clean)
			}
		}
	})
}

package converse

import (
	"fmt"
	"strings"
	"testing"
)

// spoken is a canonical response of about 5 KB.
func spoken() []byte {
	text := strings.Repeat("The pool of payments-db was exhausted at 02:03:14, after v841 went out. ", 66)
	return fmt.Appendf(nil, `{"output":{"message":{"content":[{"text":%q},{"toolUse":{"input":{"service":"checkout"},"name":"query_metrics","toolUseId":"tooluse_1"}}],"role":"assistant"}},"stopReason":"tool_use","usage":{"inputTokens":4100,"outputTokens":1210,"totalTokens":5310}}`, text)
}

func BenchmarkParseTurn(b *testing.B) {
	body := spoken()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseTurn(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseCanonical(b *testing.B) {
	body := spoken()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseCanonical(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNormalize(b *testing.B) {
	body := append([]byte(`{"metrics":{"latencyMs":412},`), spoken()[1:]...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Normalize(body); err != nil {
			b.Fatal(err)
		}
	}
}

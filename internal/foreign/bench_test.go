package foreign

import (
	"fmt"
	"strings"
	"testing"
)

// longQuestion is a request of about 20 KB as a client spells it: no member stands
// where canonical JSON has it.
func longQuestion() []byte {
	text := "question 17 " + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 440)
	return fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"text":%q}]}],"system":[{"text":"You find causes."}]}`, text)
}

// loops is a request of about 20 KB in the middle of a run: tool definitions,
// calls, results as JSON and as text with lines.
func loops() []byte {
	var b strings.Builder
	b.WriteString(`{"inferenceConfig":{"maxTokens":4096,"temperature":0.5},"messages":[{"content":[{"text":"why is checkout slow?"}],"role":"user"}`)
	rows := strings.Repeat(`{"time":"2026-03-10T02:00:00Z","value":183.25,"unit":"ms","service":"checkout"},`, 20)
	lines := strings.Repeat(`02:03:14 payments-db pool \"exhausted\": 10/10 in use\n`, 20)
	for i := range 5 {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"text":"Let me look at the metrics first."},{"toolUse":{"toolUseId":"tooluse_%d","name":"query_metrics","input":{"service":"checkout","from":"2026-03-10T01:00:00Z"}}}]}`, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_%d","content":[{"json":{"rows":[%s]}},{"text":"%s"}],"status":"success"}}]}`, i, strings.TrimSuffix(rows, ","), lines)
	}
	b.WriteString(`],"system":[{"text":"You find causes."}],"toolConfig":{"tools":[`)
	for i := range 4 {
		fmt.Fprintf(&b, `{"toolSpec":{"name":"tool_%d","description":"Query a metric of one service over a window of time.","inputSchema":{"json":{"type":"object","properties":{"service":{"type":"string"},"from":{"type":"string"}},"required":["service"]}}}},`, i)
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + `]}}`)
}

// spoken is an answer of about 5 KB.
func spoken() []byte {
	text := strings.Repeat("The pool of payments-db was exhausted at 02:03:14, after v841 went out. ", 66)
	return fmt.Appendf(nil, `{"metrics":{"latencyMs":412},"output":{"message":{"content":[{"text":%q},{"toolUse":{"input":{"service":"checkout"},"name":"query_metrics","toolUseId":"tooluse_1"}}],"role":"assistant"}},"stopReason":"tool_use","usage":{"inputTokens":4100,"outputTokens":1210,"totalTokens":5310}}`, text)
}

func requests() map[string][]byte {
	return map[string][]byte{"question": longQuestion(), "loop": loops()}
}

func BenchmarkReadRequest(b *testing.B) {
	for name, body := range requests() {
		b.Run(name, func(b *testing.B) {
			r, _ := ParseRoute("/model/m/converse")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadRequest(r, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSums(b *testing.B) {
	for name, body := range requests() {
		b.Run(name, func(b *testing.B) {
			a := read(b, "/model/m/converse", string(body))
			messages := a.Request.Messages.Messages()
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				sums := Sums(messages)
				Key(a, sums[len(sums)-1])
			}
		})
	}
}

// BenchmarkSumsOf is BenchmarkSums with what the thread knows.
func BenchmarkSumsOf(b *testing.B) {
	for name, body := range requests() {
		b.Run(name, func(b *testing.B) {
			a := read(b, "/model/m/converse", string(body))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				sums := SumsOf(a.Request.Messages)
				Key(a, sums[len(sums)-1])
			}
		})
	}
}

func BenchmarkReadAnswer(b *testing.B) {
	body := spoken()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadAnswer(Converse, body); err != nil {
			b.Fatal(err)
		}
	}
}

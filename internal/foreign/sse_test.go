package foreign

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
)

func TestServerSentEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"empty":                 {"", nil},
		"LF":                    {"event: a\ndata: 1\n\ndata: 2\n\n", []string{"1", "2"}},
		"CR LF":                 {"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []string{"1", "2"}},
		"CR":                    {"event: a\rdata: 1\r\rdata: 2\r\r", []string{"1", "2"}},
		"several lines":         {"data: {\ndata:  \"a\":1\ndata: }\n\n", []string{"{\n \"a\":1\n}"}},
		"several lines, CR LF":  {"data: [\r\ndata: 1]\r\n\r\n", []string{"[\n1]"}},
		"no space":              {"data:1\n\n", []string{"1"}},
		"one space":             {"data:  1\n\n", []string{" 1"}},
		"comments":              {": ping\n\n:\ndata: 1\n: more\ndata: 2\n\n", []string{"1\n2"}},
		"other fields":          {"id: 7\nretry: 5\ndata: 1\n\n", []string{"1"}},
		"a field that is not":   {"database: 1\ndata: 2\n\n", []string{"2"}},
		"no blank line, LF":     {"data: 1\n\ndata: 2\n", []string{"1", "2"}},
		"no end of line":        {"data: 1\n\ndata: 2", []string{"1", "2"}},
		"byte order mark":       {"\ufeffdata: 1\n\n", []string{"1"}},
		"events without data":   {"event: a\n\n\n\nevent: b\n\n", nil},
		"empty data":            {"data\ndata:\n\n", []string{""}},
		"lines inside the data": {"data: \"a\\r\\nb\"\n\n", []string{`"a\r\nb"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, data := range sseData([]byte(c.stream)) {
				got = append(got, string(data))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestAnswersInAnyLines: an Anthropic stream reads the same however its lines end
// and its data is cut into lines.
func TestAnswersInAnyLines(t *testing.T) {
	plain := strings.Join([]string{
		`data: {"type":"message_start","message":{"usage":{"input_tokens":1}}}`,
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`,
		`data: {"type":"content_block_stop","index":0}`,
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
		`data: {"type":"message_stop"}`,
	}, "\n\n") + "\n\n"
	want, err := ReadAnswer(Anthropic, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	for name, stream := range map[string]string{
		"CR":            strings.ReplaceAll(plain, "\n", "\r"),
		"CR LF":         strings.ReplaceAll(plain, "\n", "\r\n"),
		"several lines": strings.ReplaceAll(plain, `,"`, ",\ndata: \""),
	} {
		got, err := ReadAnswer(Anthropic, []byte(stream))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %s, error %v", name, got, err)
		}
	}
}

// TestManyMessagesAreRead: what reading the results of a long request takes grows
// with its length, and not with the square of it.
func TestManyMessagesAreRead(t *testing.T) {
	var thread *converse.Thread
	for range 8000 {
		thread = thread.Append([]byte(`{"content":[{"text":"m"}],"role":"user"}`))
	}
	a := Asked{Dialect: Converse, Request: converse.Request{Messages: thread}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := a.Results(); len(got) > 0 {
		t.Errorf("%d results", len(got))
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes allocated for %d messages", n, thread.Len())
	}
}

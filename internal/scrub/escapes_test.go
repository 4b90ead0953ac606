package scrub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestJSON: no escape hides a secret, at whatever depth; and a text that holds
// none stays as it is.
func TestJSON(t *testing.T) {
	const php = `{"SecretAccessKey":"wJalrXUtnFEMI\/K7MDENG\/bPxRfiCYEXAMPLEKEY"}`
	for name, text := range map[string]string{
		"a letter":             `{"k":"\u0041KIAIOSFODNN7EXAMPLE"}`,
		"a letter of a name":   `{"\u0053ecretAccessKey":"` + strings.Repeat("wJalrXUtnF", 4) + `"}`,
		"a sign":               `{"url":"https://b/k?X-Amz-Signature\u003d00abcdef"}`,
		"slashes":              php,
		"beside a seen one":    `{"a":"AKIAIOSFODNN7EXAMPLE","b":"\u0041KIAIOSFODNN7EXAMPLE"}`,
		"behind a unicode":     `{"k":"\u0026AKIAIOSFODNN7EXAMPLE"}`,
		"behind a backslash":   `{"k":"\\ \u0041KIAIOSFODNN7EXAMPLE"}`,
		"in several of a text": `{"k":"\u0041KIAIOSFODNN7EXAMPL\u0045"}`,
	} {
		t.Run(name, func(t *testing.T) {
			for depth := range 4 {
				const kept = `{"before":"a \\u003c b \\/ c","text":`
				got, n := JSON([]byte(kept + text + `}`))
				if n == 0 || !json.Valid(got) || depth > 0 && !strings.HasPrefix(string(got), kept) {
					t.Errorf("depth %d: %d removed, %s", depth, n, got)
				}
				plain := string(withoutEscapes(got))
				if Find(got) != "" || Find([]byte(plain)) != "" || strings.Contains(plain, "AKIAIOSF") || strings.Contains(plain, "wJalr") || strings.Contains(plain, "00abcdef") {
					t.Errorf("depth %d: kept %s", depth, got)
				}
				quoted, err := json.Marshal(text)
				if err != nil {
					t.Fatal(err)
				}
				text = string(quoted)
			}
		})
	}
	for _, text := range []string{"", `{"a":"\\u003c\/ \\\\/"}`, `"`, `\`, `a "b\`, `"C:\\u0041\\temp"`} {
		if got, n := JSON([]byte(text)); n != 0 || string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestJSONLeavesWhatCameBefore: a secret in a later message changes no earlier one,
// or the conversation would not begin any more as it did. A model may have passed
// a key on as it read it, with escaped slashes.
func TestJSONLeavesWhatCameBefore(t *testing.T) {
	const before = `{"messages":[{"text":"{\"a\":\"\\u003cb\\u003e\"}"}`
	for name, later := range map[string]string{
		"a name and its text": `{"input":{"SecretAccessKey":"wJalrXUtnFEMI\\/K7MDENG\\/bPxRfiCYEXAMPLEKEY"}}`,
		"spelled with spaces": `{"input" : {"SecretAccessKey" : "wJalrXUtnFEMI\\/K7MDENG\\/bPxRfiCYEXAMPLEKEY"}}`,
		"one text":            `{"text":"{\"SecretAccessKey\":\"wJalrXUtnFEMI\\/K7MDENG\\/bPxRfiCYEXAMPLEKEY\"}"}`,
	} {
		got, n := JSON([]byte(before + "," + later + "]}"))
		if n != 1 || !strings.HasPrefix(string(got), before) || strings.Contains(string(got), "wJalr") || !json.Valid(got) {
			t.Errorf("%s: %d removed, %s", name, n, got)
		}
	}
}

// FuzzWithoutEscapes: JSON stays JSON that says the same, and so does JSON inside
// a text of JSON.
func FuzzWithoutEscapes(f *testing.F) {
	f.Add(`{"a\u0041":"\u0022\\u0041\u00e9\u0000\/"}`)
	f.Add(`"\\\u0041\\\\u0041\\/\\\/"`)
	f.Add(`"\u00`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || strings.Contains(strings.ToLower(text), "u005c") {
			return // a backslash of that spelling is not counted among those behind it
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var inner string
		if err := json.Unmarshal(withoutEscapes(quoted), &inner); err != nil {
			t.Fatalf("%s became %s: %v", quoted, withoutEscapes(quoted), err)
		}
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		for _, got := range []string{string(withoutEscapes([]byte(text))), inner} {
			if err := json.Unmarshal([]byte(got), &after); err != nil || shape(before) != shape(after) {
				t.Errorf("%q became %q, %v", text, got, err)
			}
		}
	})
}

// shape is a value with its texts as far as no escape is left in them.
func shape(v any) string {
	text := []byte(fmt.Sprint(v))
	for plain := withoutEscapes(text); len(plain) < len(text); plain = withoutEscapes(text) {
		text = plain
	}
	return string(text)
}

// FuzzJSON: nothing that Find finds is left, hidden or not, and JSON stays JSON.
func FuzzJSON(f *testing.F) {
	f.Add(`{"k":"\\u0041KIAIOSFODNN7EXAMPLE"}`)
	f.Add(`"AKIAIOS\u0046ODNN7EXAMPL\u0045ASIAIOSFODNN7EXAMPLE"`)
	f.Add(`{"\u0053ecretAccessKey":"wJalrXUtnFEMI\/K7MDENG\/bPxRfiCYEXAMPLEKEY"}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, n := JSON([]byte(text))
		if Find(got) != "" || Find(withoutEscapes(got)) != "" {
			t.Errorf("%q became %q", text, got)
		}
		if n == 0 && string(got) != text {
			t.Errorf("%q became %q, with nothing removed", text, got)
		}
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Errorf("%q became %q, which is no JSON", text, got)
		}
	})
}

func BenchmarkJSONEscaped(b *testing.B) {
	text := []byte(strings.Repeat(`02:03:14 checkout \\u003cpool\\u003e exhausted,\n token \u001b[31m bucket empty\n`, 160))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		JSON(text)
	}
}
